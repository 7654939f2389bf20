#include "tests/benchmark/baseline_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using testing::HasSubstr;

TEST(BaselineProgramTest, LastLineCounts) {
  const auto step_ms = StepMillisecondsOf("echo warming up; echo '{\"step_ms\":2.5}'");
  ASSERT_TRUE(step_ms.ok()) << step_ms.status();
  EXPECT_DOUBLE_EQ(*step_ms, 2.5);
}

TEST(BaselineProgramTest, FailureNamesTheCommand) {
  const auto step_ms = StepMillisecondsOf("echo '{\"step_ms\":2.5}'; exit 3");
  EXPECT_THAT(step_ms.status().message(), HasSubstr("exit 3"));
}

TEST(BaselineProgramTest, OtherOutputIsAnError) {
  EXPECT_THAT(StepMillisecondsOf("echo 2.5").status().message(), HasSubstr("got \"2.5"));
  EXPECT_FALSE(StepMillisecondsOf("true").ok());
  EXPECT_FALSE(StepMillisecondsOf("echo '{\"step_ms\":\"fast\"}'").ok());
}

}  // namespace
}  // namespace capstan
