#include "common/job/csv_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(absl::string_view text) {
  return std::string(ParseCsvColumns(text).status().message());
}

TEST(CsvColumnsTest, WordsHaveNumbers) {
  EXPECT_THAT(*ParseCsvColumns("ignored, label,numeric*2,categorical*1"),
              ElementsAre(CsvColumn::kIgnored, CsvColumn::kLabel, CsvColumn::kNumeric,
                          CsvColumn::kNumeric, CsvColumn::kCategorical));
  EXPECT_EQ(ParseCsvColumns("label,numeric*13,categorical*26")->size(), 40u);
  EXPECT_EQ(ParseCsvColumns("label,numeric*65535")->size(), 65536u);
}

TEST(CsvColumnsTest, ErrorsSayWhatIsExpectedAndGot) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("as in label,numeric*13,categorical*26, got nothing"));
  EXPECT_THAT(ErrorOf("label,number"), HasSubstr("categorical or ignored, got \"number\""));
  EXPECT_THAT(ErrorOf("label,,numeric"), HasSubstr("got \"\""));
  for (const char* bad : {"label,numeric*", "label,numeric*0", "label,numeric*x", "label*-1"}) {
    EXPECT_THAT(ErrorOf(bad), HasSubstr("expected a number of columns after")) << bad;
  }
  EXPECT_THAT(ErrorOf("numeric"), HasSubstr("expected one label, got 0"));
  EXPECT_THAT(ErrorOf("label*2,numeric"), HasSubstr("expected one label, got 2"));
  EXPECT_THAT(ErrorOf("label,ignored"), HasSubstr("numeric or categorical column, got none"));
  EXPECT_THAT(ErrorOf("label,numeric*65536"), HasSubstr("at most 65536 columns"));
  EXPECT_THAT(ErrorOf("label,numeric*18446744073709551615"), HasSubstr("at most 65536 columns"));
}

TEST(CsvColumnsTest, ADelimiterIsOneCharacter) {
  EXPECT_EQ(*ParseDelimiter(";"), ';');
  for (const char* tab : {"tab", "\t", "\\t"}) EXPECT_EQ(*ParseDelimiter(tab), '\t') << tab;
  for (const char* bad : {"", "ab", " ", "\n"}) EXPECT_FALSE(ParseDelimiter(bad).ok()) << bad;
}

}  // namespace
}  // namespace capstan
