#include "worker/dataset/data_warning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "worker/dataset/csv_reader.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The warning for a CSV file with these rows, all for training.
std::string WarningOf(const std::string& rows, v1::DataSpec spec = {}) {
  spec.set_format(v1::DataSpec::CSV);
  CsvOptions options;
  options.label_column = spec.label_column();
  DataSplit split;
  split.train = ParseCsv(rows, "x", options).value();
  return DataWarning(spec, split);
}

TEST(DataWarningTest, OrdinaryDataAreRight) {
  EXPECT_EQ(WarningOf("5,100,0\n2,50,1\n"), "");
  EXPECT_EQ(WarningOf("0,1,1\n1,0,2\n"), "") << "labels from 1 on leave one class empty";
}

TEST(DataWarningTest, LabelsOfOneKindAreNamed) {
  v1::DataSpec spec;
  spec.set_classes(2);
  EXPECT_THAT(WarningOf("5,1\n2,1\n", spec),
              AllOf(HasSubstr("every label is 1 (column 1, from 0)"), HasSubstr("--label_column")));
}

TEST(DataWarningTest, LabelsThatLeaveMostClassesEmptyAreNamed) {
  const std::string warning = WarningOf("5,900000\n2,900001\n");
  EXPECT_THAT(warning,
              HasSubstr("the labels (column 1, from 0) have 2 values, but there are 900002 "
                        "classes, as the largest label is 900001: number the labels from "
                        "0 on"));
  v1::DataSpec spec;
  spec.set_classes(1000000);
  EXPECT_EQ(WarningOf("5,900000\n2,900001\n", spec), "") << "they are meant";
}

TEST(DataWarningTest, LabelsThatCountTheSamplesAreNamed) {
  std::string rows;
  for (int i = 0; i < 300; ++i) absl::StrAppend(&rows, i % 7, ",", i, "\n");
  EXPECT_THAT(WarningOf(rows), HasSubstr("have 300 values in 300 samples"));
}

TEST(DataWarningTest, AColumnThatRuinsTheScaleIsNamed) {
  EXPECT_THAT(
      WarningOf("1.7e9,5,3,0\n1.8e9,2,4,1\n"),
      AllOf(HasSubstr("column 0 (from 0) has values up to 1.8e+09, but others only up to 4"),
            HasSubstr("time stamp")));
  v1::DataSpec spec;
  spec.set_label_column(0);
  EXPECT_THAT(WarningOf("0,5,3,1.7e9\n1,2,4,1.8e9\n", spec), HasSubstr("column 3 (from 0) has"));
  spec.set_feature_scale(1);
  EXPECT_EQ(WarningOf("0,5,3,1.7e9\n1,2,4,1.8e9\n", spec), "") << "the user has chosen";
}

TEST(DataWarningTest, OnlySomeOfManyColumnsAreNamed) {
  EXPECT_THAT(WarningOf("1e9,1e9,1e9,1e9,1,1,0\n1,1,1,1,1,1,1\n"),
              HasSubstr(" and 1 more do, but"));
}

TEST(DataWarningTest, BuiltInDataAreRight) {
  DataSplit split;
  split.train.labels = split.test.labels = {1};
  EXPECT_EQ(DataWarning(v1::DataSpec(), split), "");
}

}  // namespace
}  // namespace capstan
