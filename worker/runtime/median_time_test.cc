#include "worker/runtime/median_time.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(MedianTimeTest, IsTheMiddleOne) {
  EXPECT_EQ(MedianTime({}), absl::ZeroDuration());
  EXPECT_EQ(MedianTime({absl::Seconds(5), absl::Seconds(1), absl::Seconds(3)}), absl::Seconds(3));
  EXPECT_EQ(MedianTime({absl::Seconds(2), absl::Seconds(1)}), absl::Seconds(2));
}

}  // namespace
}  // namespace capstan
