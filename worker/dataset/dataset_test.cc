#include "worker/dataset/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace capstan {
namespace {

using ::testing::HasSubstr;

TEST(DenseLimitTest, EightGibibytesAreAccepted) {
  EXPECT_TRUE(CheckDenseSize(/*rows=*/1 << 21, /*columns=*/1 << 10).ok());
  EXPECT_TRUE(CheckDenseSize(/*rows=*/0, /*columns=*/0).ok());
}

TEST(DenseLimitTest, MoreIsRefusedWithItsSize) {
  const absl::Status status = CheckDenseSize(/*rows=*/1 << 21, /*columns=*/1 << 11);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("2097152 rows of 2048 values take 16.0 GiB"));
  EXPECT_THAT(status.message(), HasSubstr("at most 8 GiB"));
}

TEST(DenseLimitTest, ShapesWhoseProductOverflowsAreRefused) {
  EXPECT_FALSE(CheckDenseSize(UINT64_MAX, UINT64_MAX).ok());
  EXPECT_FALSE(CheckDenseSize(uint64_t{1} << 32, uint64_t{1} << 32).ok());
  EXPECT_FALSE(CheckDenseSize(/*rows=*/1, uint64_t{1} << 31).ok());
}

// Sample i has features i and -i, and label i.
Dataset Numbered(int count) {
  Dataset data;
  data.feature_count = 2;
  data.class_count = count;
  for (int i = 0; i < count; ++i) {
    data.features.push_back(static_cast<float>(i));
    data.features.push_back(static_cast<float>(-i));
    data.labels.push_back(i);
  }
  return data;
}

TEST(SplitDatasetTest, EverySampleIsOnOneSideWithItsOwnLabel) {
  const DataSplit split = *SplitDataset(Numbered(100), /*test_fraction=*/0.2, /*seed=*/1);
  EXPECT_EQ(split.train.size(), 80);
  EXPECT_EQ(split.test.size(), 20);
  std::vector<int> seen(100);
  for (const Dataset* side : {&split.train, &split.test}) {
    EXPECT_EQ(side->feature_count, 2);
    EXPECT_EQ(side->class_count, 100);
    for (size_t i = 0; i < side->size(); ++i) {
      const int32_t label = side->labels[i];
      EXPECT_EQ(side->Row(i)[0], label);
      EXPECT_EQ(side->Row(i)[1], -label);
      ++seen[static_cast<size_t>(label)];
    }
  }
  EXPECT_EQ(seen, std::vector<int>(100, 1));
}

TEST(SplitDatasetTest, SeedDrawsTheSplit) {
  const Dataset data = Numbered(100);
  const std::vector<int32_t> labels = SplitDataset(data, 0.2, /*seed=*/1)->test.labels;
  EXPECT_EQ(SplitDataset(data, 0.2, /*seed=*/1)->test.labels, labels);
  EXPECT_NE(SplitDataset(data, 0.2, /*seed=*/2)->test.labels, labels);
}

TEST(SplitDatasetTest, NeitherSideIsEmpty) {
  EXPECT_EQ(SplitDataset(Numbered(2), /*test_fraction=*/0.01, /*seed=*/1)->test.size(), 1);
  EXPECT_EQ(SplitDataset(Numbered(3), /*test_fraction=*/0.99, /*seed=*/1)->train.size(), 1);
  EXPECT_THAT(SplitDataset(Numbered(1), /*test_fraction=*/0.5, /*seed=*/1).status().message(),
              HasSubstr("expected at least 2 samples"));
}

TEST(SplitDatasetTest, FractionOutsideZeroAndOneIsRefused) {
  for (const double fraction : {0.0, 1.0, -0.1, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    const absl::Status status = SplitDataset(Numbered(10), fraction, /*seed=*/1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << fraction;
    EXPECT_THAT(status.message(), HasSubstr("expected data.test_fraction between 0 and 1, got "));
  }
}

}  // namespace
}  // namespace capstan
