#include "worker/dataset/line_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Lines(absl::string_view text) {
  LineReader reader(text, "file x");
  std::vector<std::string> lines;
  const int64_t count = reader.CountRemaining();
  absl::string_view line;
  while (reader.Next(&line)) lines.emplace_back(line);
  EXPECT_EQ(lines.size(), count);
  EXPECT_EQ(reader.line_number(), count);
  return lines;
}

TEST(LineReaderTest, BothLineEndsAndAMissingLastOneAreAccepted) {
  EXPECT_THAT(Lines("a\nb\n"), ElementsAre("a", "b"));
  EXPECT_THAT(Lines("a\r\nb\r\n"), ElementsAre("a", "b"));
  EXPECT_THAT(Lines("a\nb"), ElementsAre("a", "b"));
}

TEST(LineReaderTest, BlanksAroundLinesAndBlankLinesAtTheEndAreLeftOut) {
  EXPECT_THAT(Lines(" a \n\tb\n\n  \r\n"), ElementsAre("a", "b"));
}

TEST(LineReaderTest, BlankLinesBeforeTheEndStay) {
  EXPECT_THAT(Lines("\na\n\nb"), ElementsAre("", "a", "", "b"));
}

TEST(LineReaderTest, ByteOrderMarkIsLeftOut) {
  EXPECT_THAT(Lines("\xEF\xBB\xBF"
                    "a"),
              ElementsAre("a"));
}

TEST(LineReaderTest, TextOfBlanksHasNoLines) {
  EXPECT_THAT(Lines(""), IsEmpty());
  EXPECT_THAT(Lines(" \r\n\n"), IsEmpty());
}

TEST(LineReaderTest, ErrorsNameSourceAndLine) {
  LineReader reader("a\nb\n", "file x");
  absl::string_view line;
  reader.Next(&line);
  reader.Next(&line);
  EXPECT_EQ(reader.AtLine(absl::DataLossError("bad")), absl::DataLossError("file x, line 2: bad"));
}

}  // namespace
}  // namespace capstan
