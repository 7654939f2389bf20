#include "tests/benchmark/checkpoint/checkpointed_steps.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

// Steps that begin at these milliseconds.
std::vector<absl::Time> At(const std::vector<int>& milliseconds) {
  std::vector<absl::Time> times;
  for (const int time : milliseconds) times.push_back(absl::UnixEpoch() + absl::Milliseconds(time));
  return times;
}

WritingTime Between(int begin, int end) { return {At({begin})[0], At({end})[0]}; }

TEST(StepFiguresTest, StepsBelongToTheCheckpointThatTheyOverlap) {
  // The second and the third step overlap the checkpoint: 30 and 12 ms. The other ones take 10 ms.
  const auto figures = StepFigures(At({0, 10, 20, 50, 62, 72}), {Between(25, 55)});
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_EQ(figures->at("step_ms"), 10);
  EXPECT_EQ(figures->at("step_slowdown"), 3);  // the upper one of two
  EXPECT_DOUBLE_EQ(figures->at("mean_step_slowdown"), 2.1);
  EXPECT_EQ(figures->at("slowest_step_slowdown"), 3);
  EXPECT_EQ(figures->at("steps_while_writing"), 2);
}

TEST(StepFiguresTest, AStepThatEndsWithTheOrderIsWithoutACheckpoint) {
  const auto figures = StepFigures(At({0, 10, 30, 40, 60, 70}), {Between(10, 30), Between(40, 60)});
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_EQ(figures->at("step_ms"), 10);
  EXPECT_EQ(figures->at("step_slowdown"), 2);
  EXPECT_EQ(figures->at("steps_while_writing"), 1);
}

TEST(StepFiguresTest, ThereMustBeStepsWithAndWithoutACheckpoint) {
  EXPECT_EQ(StepFigures(At({0, 10, 20}), {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(StepFigures(At({0, 10, 20}), {Between(0, 20)}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace capstan
