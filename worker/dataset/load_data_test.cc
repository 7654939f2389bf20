#include "worker/dataset/load_data.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/dataset/temp_file.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status CheckSpec(const std::string& text) {
  v1::DataSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return CheckDataSpec(spec);
}

std::string SpecError(const std::string& text) {
  const absl::Status status = CheckSpec(text);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(CheckDataSpecTest, CompleteSpecsAreAccepted) {
  for (const char* text :
       {"", "format: SYNTHETIC", "format: CSV path: 'x'", "format: CSV path: 'x' test_path: 'y'",
        "format: LIBSVM path: 'x' test_path: 'y' test_fraction: 0 features: 3 classes: 2",
        "format: IDX path: 'x' labels_path: 'y'",
        "format: IDX path: 'x' labels_path: 'y' test_path: 'z' test_labels_path: 'a'"}) {
    EXPECT_TRUE(CheckSpec(text).ok()) << text << ": " << CheckSpec(text);
  }
}

TEST(CheckDataSpecTest, FormatMustBeSet) {
  EXPECT_THAT(SpecError("format: FORMAT_UNSPECIFIED"), HasSubstr("pass --data_format="));
}

TEST(CheckDataSpecTest, MissingPathIsNamedWithItsFlag) {
  EXPECT_EQ(SpecError("format: CSV"),
            "data.path is required for format CSV: pass --data_path=FILE");
  EXPECT_EQ(SpecError("format: LIBSVM"),
            "data.path is required for format LIBSVM: pass --data_path=FILE");
  EXPECT_EQ(SpecError("format: IDX path: 'x'"),
            "data.labels_path is required for format IDX: pass --data_labels_path=FILE");
  EXPECT_EQ(SpecError("format: IDX path: 'x' labels_path: 'y' test_path: 'z'"),
            "data.test_labels_path is required for format IDX: pass --test_labels_path=FILE");
  EXPECT_EQ(SpecError("format: IDX path: 'x' labels_path: 'y' test_labels_path: 'z'"),
            "data.test_path is required for format IDX: pass --test_path=FILE");
}

TEST(CheckDataSpecTest, PathThatTheFormatDoesNotReadIsRefused) {
  EXPECT_EQ(SpecError("path: 'my.csv'"),
            "data.path is my.csv, but format DIGITS does not read it: leave --data_path out, or "
            "pass another --data_format (CSV, IDX, LIBSVM)");
  EXPECT_THAT(SpecError("format: SYNTHETIC test_path: 'x'"), HasSubstr("data.test_path is x, but"));
  EXPECT_THAT(SpecError("format: CSV path: 'x' labels_path: 'y'"),
              HasSubstr("data.labels_path is y, but format CSV does not read it"));
}

TEST(CheckDataSpecTest, NumbersOutOfRangeAreRefused) {
  EXPECT_THAT(SpecError("test_fraction: 0"),
              HasSubstr("data.test_fraction between 0 and 1, got 0"));
  EXPECT_THAT(SpecError("test_fraction: 1.5"), HasSubstr("got 1.5: pass --test_fraction="));
  EXPECT_THAT(SpecError("classes: 1"), HasSubstr("data.classes from 2 to 1048576"));
  EXPECT_THAT(SpecError("classes: 4294967295"),
              HasSubstr("got 4294967295: pass another --classes"));
  EXPECT_THAT(SpecError("label_column: -2"), HasSubstr("got -2: pass another --label_column"));
  EXPECT_THAT(SpecError("feature_scale: -1"), HasSubstr("data.feature_scale"));
  EXPECT_THAT(SpecError("feature_scale: nan"), HasSubstr("data.feature_scale"));
  EXPECT_THAT(SpecError("feature_scale: inf"), HasSubstr("data.feature_scale"));
}

absl::StatusOr<DataSplit> Load(const std::string& text, uint64_t seed = 1) {
  v1::DataSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return LoadData(spec, seed);
}

std::string Error(const std::string& text) {
  const absl::Status status = Load(text).status();
  EXPECT_FALSE(status.ok()) << text;
  EXPECT_FALSE(absl::StrContains(status.message(), '\n')) << status;
  return std::string(status.message());
}

// "format: F path: '...' test_path: '...' " of two new files.
std::string TwoFiles(const std::string& format, const std::string& train, const std::string& test) {
  return absl::StrCat("format: ", format, " path: '", WriteTempFile("train", train),
                      "' test_path: '", WriteTempFile("test", test), "' ");
}

TEST(LoadDataTest, EmptySpecGivesTheDigitsSplitAndScaled) {
  const absl::StatusOr<DataSplit> split = Load("");
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->train.size(), 1438);
  EXPECT_EQ(split->test.size(), 359);
  EXPECT_EQ(split->train.class_count, 10);
  EXPECT_EQ(split->test.class_count, 10);
  EXPECT_EQ(*std::max_element(split->train.features.begin(), split->train.features.end()), 1.0f);
}

TEST(LoadDataTest, SameSeedGivesTheSameSplit) {
  EXPECT_EQ(Load("", /*seed=*/5)->test.labels, Load("", /*seed=*/5)->test.labels);
  EXPECT_NE(Load("", /*seed=*/5)->test.labels, Load("", /*seed=*/6)->test.labels);
}

TEST(LoadDataTest, SyntheticDataHasAllItsClasses) {
  const absl::StatusOr<DataSplit> split =
      Load("format: SYNTHETIC synthetic { samples: 10 features: 3 classes: 50 }");
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->train.size(), 8);
  EXPECT_EQ(split->test.size(), 2);
  EXPECT_EQ(split->train.feature_count, 3);
  EXPECT_EQ(split->test.class_count, 50);
}

TEST(LoadDataTest, ScaleOfTheTrainingFileIsAppliedToBothFiles) {
  const absl::StatusOr<DataSplit> split = Load(TwoFiles("CSV", "1,-4,0\n2,0,1\n", "8,2,0\n"));
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_THAT(split->train.features, ElementsAre(0.25, -1, 0.5, 0));
  EXPECT_THAT(split->test.features, ElementsAre(2, 0.5));
}

TEST(LoadDataTest, ScaleCanBeGiven) {
  const std::string files = TwoFiles("CSV", "1,0\n2,1\n", "3,0\n");
  EXPECT_THAT(Load(files + "feature_scale: 1")->train.features, ElementsAre(1, 2));
  EXPECT_THAT(Load(files + "feature_scale: 10")->test.features, ElementsAre(30));
  EXPECT_THAT(Error(files + "feature_scale: 3e38"), HasSubstr("do not fit float32"));
}

TEST(LoadDataTest, FeaturesThatAreAllZeroStayZero) {
  EXPECT_THAT(Load(TwoFiles("CSV", "0,0\n0,1\n", "0,0\n"))->train.features, ElementsAre(0, 0));
}

TEST(LoadDataTest, ClassesAreCountedOverBothFiles) {
  const absl::StatusOr<DataSplit> split = Load(TwoFiles("CSV", "1,0\n2,1\n", "3,4\n"));
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->train.class_count, 5);
  EXPECT_EQ(split->test.class_count, 5);
}

TEST(LoadDataTest, ClassesCanBeGivenAndBoundTheLabels) {
  const std::string files = TwoFiles("CSV", "1,0\n2,1\n", "3,0\n3,2\n");
  EXPECT_EQ(Load(files + "classes: 7")->train.class_count, 7);
  EXPECT_THAT(Error(files + "classes: 2"),
              HasSubstr("test, line 2: column 1 (from 0): expected a label below 2, got 2"));
  EXPECT_THAT(Error("classes: 5"), HasSubstr("format DIGITS has 10 classes"));
}

TEST(LoadDataTest, OneClassIsRefused) {
  for (const char* label : {"0", "1", "7"}) {
    EXPECT_THAT(Error(TwoFiles("CSV", absl::StrCat("1,", label, "\n2,", label, "\n"),
                               absl::StrCat("3,", label, "\n"))),
                HasSubstr(absl::StrCat("every label is ", label, " (column 1, from 0): pass")));
  }
}

TEST(LoadDataTest, WhatIsProbablyWrongInTheDataIsSaid) {
  const std::string files = TwoFiles("CSV", "1,1\n2,1\n", "3,1\n");
  EXPECT_THAT(Load(files + "classes: 2")->warning, HasSubstr("every label is 1"));
  EXPECT_THAT(Load(TwoFiles("CSV", "1,0\n2,90\n", "3,1\n"))->warning, HasSubstr("91 classes"));
  EXPECT_THAT(Load(TwoFiles("LIBSVM", "0 1:1 2:7e7\n1 1:2 2:7e7\n", "0 1:1\n"))->warning,
              HasSubstr("feature 2 has values up to 7e+07"));
  EXPECT_EQ(Load("")->warning, "");
}

TEST(LoadDataTest, LibsvmFilesBeginAtTheSameIndex) {
  const absl::StatusOr<DataSplit> split = Load(TwoFiles("LIBSVM", "1 1:1\n0 2:1\n", "1 0:1\n"));
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->train.feature_count, 3);
  EXPECT_THAT(split->test.features, ElementsAre(1, 0, 0));
}

TEST(LoadDataTest, CsvOptionsAreUsed) {
  const absl::StatusOr<DataSplit> split =
      Load(TwoFiles("CSV", "label,x\n1,2\n0,1\n", "label,x\n1,2\n") +
           "label_column: 0 has_header: true");
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_THAT(split->train.labels, ElementsAre(1, 0));
  EXPECT_THAT(split->train.features, ElementsAre(1, 0.5));
}

TEST(LoadDataTest, TestFileWithOtherFeaturesIsRefused) {
  EXPECT_THAT(Error(TwoFiles("CSV", "1,2,3,0\n", "1,2,0\n")),
              HasSubstr("test file has 2 features, the training file has 3: "));
}

TEST(LoadDataTest, LibsvmTestFileTakesTheWidthOfTheTrainingFile) {
  const absl::StatusOr<DataSplit> split = Load(TwoFiles("LIBSVM", "+1 3:1\n-1 1:1\n", "1 2:1\n"));
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_THAT(split->test.features, ElementsAre(0, 1, 0));
  EXPECT_THAT(split->train.labels, ElementsAre(1, 0));
}

TEST(LoadDataTest, LibsvmIndexBeyondTheTrainingFileIsRefusedUnlessFeaturesIsGiven) {
  const std::string files = TwoFiles("LIBSVM", "0 3:1\n1 1:1\n", "1 4:1\n");
  EXPECT_THAT(Error(files),
              HasSubstr("test, line 1: expected a feature index of at most 3, got 4"));
  EXPECT_EQ(Load(files + "features: 4")->train.feature_count, 4);
}

TEST(LoadDataTest, IdxFilesAreReadForBothSides) {
  const std::string images("\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\1\12\24", 18);
  const std::string labels("\0\0\10\1\0\0\0\2\0\1", 10);
  const std::string path = WriteTempFile("images", images);
  const std::string labels_path = WriteTempFile("labels", GzipBytes(labels));
  const absl::StatusOr<DataSplit> split =
      Load(absl::StrCat("format: IDX path: '", path, "' labels_path: '", labels_path,
                        "' test_path: '", path, "' test_labels_path: '", labels_path, "'"));
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_THAT(split->train.features, ElementsAre(0.5, 1));
  EXPECT_THAT(split->test.labels, ElementsAre(0, 1));
}

TEST(LoadDataTest, SpecIsCheckedBeforeAnyFileIsRead) {
  EXPECT_EQ(Error("format: CSV"), "data.path is required for format CSV: pass --data_path=FILE");
  EXPECT_THAT(Error("format: CSV path: '/nowhere' test_fraction: 2"), HasSubstr("test_fraction"));
}

TEST(LoadDataTest, MissingFileIsNotFound) {
  const absl::Status status = Load("format: CSV path: '/nowhere/y.csv'").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("data file /nowhere/y.csv does not exist"));
}

}  // namespace
}  // namespace capstan
