#include "worker/dataset/libsvm_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/dataset/temp_file.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Dataset Parse(absl::string_view text, const LibsvmOptions& options = {}) {
  absl::StatusOr<Dataset> data = ParseLibsvm(text, "file x", options);
  EXPECT_TRUE(data.ok()) << data.status();
  return data.ok() ? *std::move(data) : Dataset();
}

std::string Error(absl::string_view text, const LibsvmOptions& options = {}) {
  const absl::StatusOr<Dataset> data = ParseLibsvm(text, "file x", options);
  EXPECT_FALSE(data.ok()) << text;
  return std::string(data.status().message());
}

TEST(LibsvmReaderTest, FeaturesThatAreLeftOutAreZero) {
  const Dataset data = Parse("2 1:0.5 3:-1\r\n0\n1  2:7 \n\n");
  EXPECT_EQ(data.feature_count, 3);
  EXPECT_EQ(data.class_count, 3);
  EXPECT_THAT(data.labels, ElementsAre(2, 0, 1));
  EXPECT_THAT(data.features, ElementsAre(0.5, 0, -1, 0, 0, 0, 0, 7, 0));
}

TEST(LibsvmReaderTest, NumberOfFeaturesCanBeGiven) {
  LibsvmOptions options;
  options.features = 5;
  EXPECT_THAT(Parse("0 2:1\n", options).features, ElementsAre(0, 1, 0, 0, 0));
}

TEST(LibsvmReaderTest, MinusOneAndPlusOneBecomeZeroAndOne) {
  const Dataset data = Parse("+1 1:1\n-1 1:2\n1 1:3\n");
  EXPECT_THAT(data.labels, ElementsAre(1, 0, 1));
  EXPECT_EQ(data.class_count, 2);
}

TEST(LibsvmReaderTest, MinusOneDoesNotMixWithOtherLabels) {
  EXPECT_THAT(Error("-1 1:1\n1 1:1\n0 1:1\n"), HasSubstr("file x, line 3: label 0 in a file that"));
  EXPECT_THAT(Error("2 1:1\n-1 1:1\n"), HasSubstr("file x, line 2: label -1 in a file that"));
}

TEST(LibsvmReaderTest, LabelsMayBeWrittenAsFloats) {
  EXPECT_THAT(Parse("-1.000000 1:1\n1e0 1:2\n+1.0 1:3\n").labels, ElementsAre(0, 1, 1));
}

TEST(LibsvmReaderTest, CommentsAreLeftOut) {
  const Dataset data = Parse("# made by a program\n1 1:2 # 3:4\n# 5:6\n0 2:1#\n");
  EXPECT_THAT(data.labels, ElementsAre(1, 0));
  EXPECT_THAT(data.features, ElementsAre(2, 0, 0, 1));
  EXPECT_EQ(Error("# nothing\n"), "file x: expected at least one sample, got comments only");
}

// As scikit-learn's dump_svmlight_file writes them.
TEST(LibsvmReaderTest, IndicesBeginAtZeroIfOneIsZero) {
  const Dataset data = Parse("1 0:5 2:7\n0 1:6\n");
  EXPECT_EQ(data.feature_count, 3);
  EXPECT_EQ(data.first_feature, 0);
  EXPECT_THAT(data.features, ElementsAre(5, 0, 7, 0, 6, 0));
  EXPECT_EQ(Parse("1 1:5 2:7\n").first_feature, 1);
  LibsvmOptions options;
  options.features = 3;
  EXPECT_EQ(Parse("1 0:5 2:7\n", options).feature_count, 3);
  EXPECT_THAT(Error("1 0:5 3:7\n", options),
              HasSubstr("index of at most 2 for 3 features, as an index is 0, got 3: pass"));
}

TEST(LibsvmReaderTest, TwoFilesBeginAtTheSameIndex) {
  const std::string with_zero = WriteTempFile("zero", "1 0:5 2:7\n");
  const std::string without = WriteTempFile("one", "0 1:6 2:8\n");
  for (const bool train_has_zero : {true, false}) {
    const absl::StatusOr<DataSplit> split =
        train_has_zero ? ReadLibsvmSplit(with_zero, without, LibsvmOptions())
                       : ReadLibsvmSplit(without, with_zero, LibsvmOptions());
    ASSERT_TRUE(split.ok()) << split.status();
    EXPECT_THAT((train_has_zero ? split->train : split->test).features, ElementsAre(5, 0, 7));
    EXPECT_THAT((train_has_zero ? split->test : split->train).features, ElementsAre(0, 6, 8));
  }
}

TEST(LibsvmReaderTest, BadLabelsAreRefused) {
  EXPECT_EQ(Error("0 1:1\n1.5 1:1\n"), "file x, line 2: expected an integer label, got '1.5'");
  EXPECT_EQ(Error("-2 1:1\n"), "file x, line 1: expected a label from 0, got -2");
  EXPECT_EQ(Error("1:1 2:1\n"), "file x, line 1: expected an integer label, got '1:1'");
  LibsvmOptions options;
  options.classes = 2;
  EXPECT_THAT(Error("2 1:1\n", options), HasSubstr("line 1: expected a label below 2, got 2"));
}

TEST(LibsvmReaderTest, BadIndicesAreRefused) {
  EXPECT_EQ(Error("0 1:1\n0 -1:1\n"), "file x, line 2: expected a feature index from 0, got -1");
  EXPECT_EQ(Error("0 2:1 1:1\n"),
            "file x, line 1: expected ascending feature indices, got 1 after 2");
  EXPECT_EQ(Error("0 2:1 2:1\n"),
            "file x, line 1: expected ascending feature indices, got 2 after 2");
  EXPECT_THAT(Error("0 3000000000:1\n"), HasSubstr("index of at most 2147483647, got 3000000000"));
  LibsvmOptions options;
  options.features = 3;
  EXPECT_EQ(Error("0 4:1\n", options),
            "file x, line 1: expected a feature index of at most 3, got 4: pass --features=N with "
            "the largest index of all files");
}

TEST(LibsvmReaderTest, WhatIsNotAnEntryIsQuoted) {
  for (const char* token : {"7", "qid", "a:1", ":1", "1.5:1", "99999999999999999999:1"}) {
    EXPECT_EQ(Error(absl::StrCat("0 ", token, "\n")),
              absl::StrCat("file x, line 1: expected index:value, got '", token, "'"));
  }
  EXPECT_EQ(Error("0 1:x\n"), "file x, line 1: feature 1: expected a number, got 'x'");
  EXPECT_EQ(Error("0 1:\n"), "file x, line 1: feature 1: expected a number, got an empty field");
  EXPECT_EQ(Error("0 1:inf\n"), "file x, line 1: feature 1: expected a finite number, got 'inf'");
}

TEST(LibsvmReaderTest, FileWithoutSamplesOrFeaturesIsRefused) {
  EXPECT_EQ(Error("\n"), "file x: expected at least one sample, got an empty file");
  EXPECT_EQ(Error("0\n1\n"), "file x: expected features, got labels only");
  EXPECT_EQ(Error("0 1:1\n\n0 1:1\n"),
            "file x, line 2: expected 'label index:value ...', got a blank line");
}

TEST(LibsvmReaderTest, MoreThanTheDenseLimitIsRefusedBeforeItIsAllocated) {
  const absl::Status status =
      ParseLibsvm("0 2000000000:1\n1 1:1\n", "file x", LibsvmOptions()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("file x: 2 rows of 2000000000 values take 14.9 GiB"));
}

TEST(LibsvmReaderTest, ErrorsOfAFileNameIt) {
  const std::string path = WriteTempFile("x", "0 1:1\n0 1\n");
  EXPECT_EQ(ReadLibsvm(path, LibsvmOptions()).status().message(),
            absl::StrCat("data file ", path, ", line 2: expected index:value, got '1'"));
}

// 6,513 + 1,611 samples of 126 binary features; the counts were taken from the files with awk.
TEST(LibsvmReaderTest, MushroomsAreRead) {
  const std::string prefix = "worker/dataset/testdata/agaricus.libsvm.";
  const absl::StatusOr<Dataset> train = ReadLibsvm(prefix + "train.gz", LibsvmOptions());
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->size(), 6513);
  EXPECT_EQ(train->feature_count, 126);
  EXPECT_EQ(train->class_count, 2);
  EXPECT_EQ(std::count(train->labels.begin(), train->labels.end(), 1), 3140);
  EXPECT_EQ(std::accumulate(train->features.begin(), train->features.end(), 0.0), 143286);
  LibsvmOptions options;
  options.features = 126;
  const absl::StatusOr<Dataset> test = ReadLibsvm(prefix + "test.gz", options);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ(test->size(), 1611);
  EXPECT_EQ(std::count(test->labels.begin(), test->labels.end(), 1), 776);
}

}  // namespace
}  // namespace capstan
