#include "worker/dataset/sparse/categorical_csv_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "worker/dataset/sparse/sparse_batch.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<LineParser> MakeParser(const CategoricalCsvOptions& options) {
  absl::StatusOr<std::unique_ptr<LineParser>> parser = MakeCategoricalCsvParser(options);
  EXPECT_TRUE(parser.ok()) << parser.status();
  return *std::move(parser);
}

// label, number, category, ignored, category
CategoricalCsvOptions FiveColumns(char delimiter = ',') {
  return {{CsvColumn::kLabel, CsvColumn::kNumeric, CsvColumn::kCategorical, CsvColumn::kIgnored,
           CsvColumn::kCategorical},
          delimiter};
}

std::string Error(absl::string_view line) {
  SparseBatch batch;
  const absl::Status status = MakeParser(FiveColumns())->Add(line, &batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << line;
  return std::string(status.message());
}

TEST(CategoricalCsvParserTest, EachKindOfColumnGoesToItsPlace) {
  SparseBatch batch;
  ASSERT_TRUE(MakeParser(FiveColumns())->Add("1, 2.5 ,red,\"any, big ", &batch).ok());
  const SparseSample sample = batch.Sample(0);
  EXPECT_EQ(sample.label, 1);
  EXPECT_THAT(sample.dense, ElementsAre(2.5f));
  EXPECT_THAT(sample.keys, ElementsAre(CategoryKey(2, "red"), CategoryKey(4, "big")));
  EXPECT_THAT(sample.values, ElementsAre(1, 1));
  EXPECT_THAT(sample.fields, ElementsAre(0, 1));
}

TEST(CategoricalCsvParserTest, MissingNumberIsZeroAndMissingCategoryHasAKey) {
  SparseBatch batch;
  ASSERT_TRUE(MakeParser(FiveColumns('\t'))->Add("0\t\t\t\t", &batch).ok());
  EXPECT_THAT(batch.Sample(0).dense, ElementsAre(0));
  EXPECT_THAT(batch.Sample(0).keys, ElementsAre(CategoryKey(2, ""), CategoryKey(4, "")));
}

TEST(CategoricalCsvParserTest, KeyIsTheHashOfTheCategoryWithTheColumnAsSeed) {
  EXPECT_EQ(CategoryKey(7, "68fd1e64"), XXH3_64bits_withSeed("68fd1e64", 8, 7));
  EXPECT_NE(CategoryKey(7, "68fd1e64"), CategoryKey(8, "68fd1e64"));
  EXPECT_NE(CategoryKey(7, ""), CategoryKey(8, ""));
}

TEST(CategoricalCsvParserTest, WrongLinesAreRefused) {
  EXPECT_EQ(Error("1,2,a,b"),
            "expected 5 columns as declared, got 4: check the columns and the character between "
            "them");
  EXPECT_EQ(Error("2,2,a,b,c"),
            "column 0 (from 0): expected the label 0 or 1, or -1 or 1, got '2': samples of clicks "
            "have two classes");
  EXPECT_EQ(Error("1,x,a,b,c"), "column 1 (from 0): expected a number, got 'x'");
  EXPECT_EQ(Error("1,inf,a,b,c"), "column 1 (from 0): expected a finite number, got 'inf'");
  EXPECT_EQ(Error("1,1,\"a\",b,c"),
            "column 2 (from 0): expected a value without quotes, got '\\\"a\\\"': remove the "
            "quotes");
}

TEST(CategoricalCsvParserTest, ThereIsOneColumnWithTheLabel) {
  for (const std::vector<CsvColumn>& columns :
       {std::vector<CsvColumn>{}, std::vector<CsvColumn>{CsvColumn::kNumeric},
        std::vector<CsvColumn>{CsvColumn::kLabel, CsvColumn::kLabel}}) {
    const absl::Status status = MakeCategoricalCsvParser({columns, ','}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("expected one column with the label, got "));
  }
}

TEST(CategoricalCsvParserTest, EndOfALineSeparatesNoColumns) {
  EXPECT_THAT(MakeCategoricalCsvParser({{CsvColumn::kLabel}, '\n'}).status().message(),
              HasSubstr("expected a character between columns such as a comma or a tab"));
}

}  // namespace
}  // namespace capstan
