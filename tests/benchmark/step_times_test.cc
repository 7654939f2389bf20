#include "tests/benchmark/step_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(StepTimesTest, ComeBackFromTheirLine) {
  const absl::StatusOr<StepTimes> times = ParseStepTimes(FormatStepTimes({0.5, 1e-6, 2}));
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_THAT(*times, testing::ElementsAre(0.5, 1e-6, 2));
}

TEST(StepTimesTest, LineOfSomethingElseIsAnError) {
  EXPECT_EQ(ParseStepTimes("0.5 seconds").status().message(),
            "expected times of steps, got: 0.5 seconds");
  EXPECT_FALSE(ParseStepTimes("").ok());
}

TEST(StepTimesTest, MedianIsOfTheSlowestProcessInEachStep) {
  // The slowest took 4, 9 and 3 ms.
  const absl::StatusOr<double> median =
      MedianStepMilliseconds({{0.004, 0.001, 0.003}, {0.001, 0.009, 0.002}});
  ASSERT_TRUE(median.ok()) << median.status();
  EXPECT_DOUBLE_EQ(*median, 4);
}

TEST(StepTimesTest, ProcessesMustHaveTimedTheSameSteps) {
  EXPECT_FALSE(MedianStepMilliseconds({{1, 2}, {1}}).ok());
  EXPECT_FALSE(MedianStepMilliseconds({}).ok());
  EXPECT_FALSE(MedianStepMilliseconds({{}, {}}).ok());
}

}  // namespace
}  // namespace capstan
