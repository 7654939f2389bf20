#include "worker/dataset/sparse/sparse_text_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "worker/dataset/sparse/sparse_batch.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Error(LineParser& parser, absl::string_view line) {
  SparseBatch batch;
  const absl::Status status = parser.Add(line, &batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << line;
  return std::string(status.message());
}

std::string LibsvmError(absl::string_view line, const SparseTextOptions& options = {}) {
  return Error(*MakeLibsvmLineParser(options), line);
}

std::string LibffmError(absl::string_view line, const SparseTextOptions& options = {}) {
  return Error(*MakeLibffmLineParser(options), line);
}

TEST(SparseTextParserTest, LibsvmHasKeysInAnyOrder) {
  const std::unique_ptr<LineParser> parser = MakeLibsvmLineParser({});
  SparseBatch batch;
  ASSERT_TRUE(parser->Add("1 3:0.5 0:-2e1 \t 18446744073709551615:1 ", &batch).ok());
  ASSERT_TRUE(parser->Add("0", &batch).ok());
  EXPECT_THAT(batch.labels(), ElementsAre(1, 0));
  EXPECT_THAT(batch.Sample(0).keys, ElementsAre(3, 0, UINT64_MAX));
  EXPECT_THAT(batch.Sample(0).values, ElementsAre(0.5f, -20.0f, 1.0f));
  EXPECT_THAT(batch.Sample(1).keys, IsEmpty());
  EXPECT_FALSE(batch.has_fields());
}

TEST(SparseTextParserTest, LibffmHasFields) {
  const std::unique_ptr<LineParser> parser = MakeLibffmLineParser({});
  SparseBatch batch;
  ASSERT_TRUE(parser->Add("-1 0:7:1 12:9:0.25", &batch).ok());
  EXPECT_THAT(batch.labels(), ElementsAre(0));
  EXPECT_THAT(batch.Sample(0).fields, ElementsAre(0, 12));
  EXPECT_THAT(batch.Sample(0).keys, ElementsAre(7, 9));
  EXPECT_THAT(batch.Sample(0).values, ElementsAre(1.0f, 0.25f));
}

TEST(SparseTextParserTest, LabelsAreOfTwoClasses) {
  EXPECT_EQ(LibsvmError("2 1:1"),
            "expected the label 0 or 1, or -1 or 1, got '2': samples of clicks have two classes");
}

TEST(SparseTextParserTest, WrongFormsAreRefused) {
  EXPECT_EQ(LibsvmError("1 5"), "expected index:value, got '5'");
  EXPECT_EQ(LibsvmError("1 :1"), "expected an index from 0 to 18446744073709551615, got ''");
  EXPECT_EQ(LibsvmError("1 qid:1"), "expected an index from 0 to 18446744073709551615, got 'qid'");
  EXPECT_EQ(LibsvmError("1 1:2:3"), "index 1: expected a number, got '2:3'");
  EXPECT_EQ(LibffmError("1 1:2"), "expected field:index:value, got '1:2'");
  EXPECT_EQ(LibffmError("1 x:2:3"), "expected a field from 0 to 65535, got 'x'");
}

TEST(SparseTextParserTest, IndicesAndFieldsOutOfRangeAreRefused) {
  SparseTextOptions options;
  options.max_key = 100;
  options.max_field = 38;
  EXPECT_EQ(LibsvmError("1 101:1", options), "expected an index from 0 to 100, got '101'");
  EXPECT_EQ(LibsvmError("1 -1:1", options), "expected an index from 0 to 100, got '-1'");
  EXPECT_EQ(LibffmError("1 38:101:1", options), "expected an index from 0 to 100, got '101'");
  EXPECT_EQ(LibffmError("1 39:1:1", options), "expected a field from 0 to 38, got '39'");
  EXPECT_EQ(LibsvmError("1 18446744073709551616:1"),
            "expected an index from 0 to 18446744073709551615, got '18446744073709551616'");
}

TEST(SparseTextParserTest, ValuesThatAreNotFiniteAreRefused) {
  EXPECT_EQ(LibsvmError("1 4:nan"), "index 4: expected a finite number, got 'nan'");
  EXPECT_EQ(LibsvmError("1 4:inf"), "index 4: expected a finite number, got 'inf'");
  EXPECT_EQ(LibsvmError("1 4:1e39"), "index 4: expected a number that fits float32, got '1e39'");
  EXPECT_EQ(LibsvmError("1 4:"), "index 4: expected a number, got an empty field");
}

}  // namespace
}  // namespace capstan
