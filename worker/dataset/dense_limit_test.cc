#include "worker/dataset/dense_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

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

}  // namespace
}  // namespace capstan
