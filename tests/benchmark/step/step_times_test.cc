#include "tests/benchmark/step/step_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using testing::HasSubstr;

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

TEST(StepMillisecondsOfTest, LastLineCounts) {
  const auto step_ms = StepMillisecondsOf("echo warming up; echo '{\"step_ms\":2.5}'");
  ASSERT_TRUE(step_ms.ok()) << step_ms.status();
  EXPECT_DOUBLE_EQ(*step_ms, 2.5);
}

TEST(StepMillisecondsOfTest, FailureNamesTheCommand) {
  const auto step_ms = StepMillisecondsOf("echo '{\"step_ms\":2.5}'; exit 3");
  EXPECT_THAT(step_ms.status().message(), HasSubstr("exit 3"));
}

TEST(StepMillisecondsOfTest, OtherOutputIsAnError) {
  EXPECT_THAT(StepMillisecondsOf("echo 2.5").status().message(), HasSubstr("got \"2.5"));
  EXPECT_FALSE(StepMillisecondsOf("true").ok());
  EXPECT_FALSE(StepMillisecondsOf("echo '{\"step_ms\":\"fast\"}'").ok());
}

}  // namespace
}  // namespace capstan
