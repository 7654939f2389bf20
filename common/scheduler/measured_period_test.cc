#include "common/scheduler/measured_period.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

bool IsEnough(uint64_t steps, double median_step_seconds) {
  v1::PeriodTimes times;
  times.set_steps(steps);
  times.set_median_step_seconds(median_step_seconds);
  return IsMeasured(times);
}

TEST(MeasuredPeriodTest, ASecondIsEnoughWithinTheBoundsOfSteps) {
  EXPECT_FALSE(IsEnough(0, 0)) << "nobody has measured anything";
  EXPECT_FALSE(IsEnough(11, 60));
  EXPECT_TRUE(IsEnough(12, 60));
  EXPECT_FALSE(IsEnough(49, 0.02));
  EXPECT_TRUE(IsEnough(51, 0.02));
  EXPECT_FALSE(IsEnough(99, 0.001));
  EXPECT_TRUE(IsEnough(100, 0.001));
}

}  // namespace
}  // namespace capstan
