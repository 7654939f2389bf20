#include "server/consistency/consistency_policy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>

namespace capstan {
namespace {

std::unique_ptr<ConsistencyPolicy> Policy(ConsistencyMode mode, int64_t staleness = 0) {
  return MakeConsistencyPolicy(mode, staleness).value();
}

TEST(BspPolicyTest, PullIsAnsweredOnlyWhenExactlyItsStepIsComplete) {
  const auto policy = Policy(ConsistencyMode::kBsp);
  EXPECT_TRUE(policy->applies_whole_steps());
  EXPECT_EQ(policy->Decide(Step(0), Step(0)), PullDecision::kAnswer) << "first step";
  EXPECT_EQ(policy->Decide(Step(4), Step(3)), PullDecision::kWait);
  EXPECT_EQ(policy->Decide(Step(4), Step(4)), PullDecision::kAnswer);
  EXPECT_EQ(policy->Decide(Step(4), Step(5)), PullDecision::kTooLate) << "isolation";
}

TEST(SspPolicyTest, FastWorkerWaitsWhenGapExceedsStaleness) {
  const auto policy = Policy(ConsistencyMode::kSsp, /*staleness=*/2);
  EXPECT_FALSE(policy->applies_whole_steps());
  EXPECT_EQ(policy->Decide(Step(7), Step(5)), PullDecision::kAnswer);
  EXPECT_EQ(policy->Decide(Step(8), Step(5)), PullDecision::kWait);
  EXPECT_EQ(policy->Decide(Step(3), Step(5)), PullDecision::kAnswer) << "the slow one never waits";
}

TEST(SspPolicyTest, FirstStepsNeverWait) {
  const auto policy = Policy(ConsistencyMode::kSsp, /*staleness=*/3);
  for (int step = 0; step <= 3; ++step) {
    EXPECT_EQ(policy->Decide(Step(step), Step(0)), PullDecision::kAnswer) << step;
  }
  EXPECT_EQ(policy->Decide(Step(4), Step(0)), PullDecision::kWait);
}

TEST(SspPolicyTest, StalenessLargerThanTheRunNeverWaits) {
  const auto policy = Policy(ConsistencyMode::kSsp, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(policy->Decide(Step(1'000'000), Step(0)), PullDecision::kAnswer);
}

TEST(SspPolicyTest, StalenessZeroWaitsForEveryStep) {
  const auto policy = Policy(ConsistencyMode::kSsp, /*staleness=*/0);
  EXPECT_EQ(policy->Decide(Step(1), Step(0)), PullDecision::kWait);
  EXPECT_EQ(policy->Decide(Step(1), Step(1)), PullDecision::kAnswer);
}

TEST(AsyncPolicyTest, PullNeverWaits) {
  const auto policy = Policy(ConsistencyMode::kAsync);
  EXPECT_FALSE(policy->applies_whole_steps());
  EXPECT_EQ(policy->Decide(Step(1'000'000), Step(0)), PullDecision::kAnswer);
  EXPECT_EQ(policy->Decide(Step(0), Step(9)), PullDecision::kAnswer);
}

TEST(MakeConsistencyPolicyTest, RefusesNegativeStaleness) {
  const auto policy = MakeConsistencyPolicy(ConsistencyMode::kSsp, /*staleness=*/-1);
  EXPECT_TRUE(absl::IsInvalidArgument(policy.status()));
  EXPECT_NE(policy.status().message().find("expected 0 or more steps, got -1"),
            absl::string_view::npos);
}

TEST(MakeConsistencyPolicyTest, MakesEachMode) {
  EXPECT_TRUE((*MakeConsistencyPolicy(ConsistencyMode::kBsp, 0))->applies_whole_steps());
  EXPECT_FALSE((*MakeConsistencyPolicy(ConsistencyMode::kSsp, 1))->applies_whole_steps());
  EXPECT_FALSE((*MakeConsistencyPolicy(ConsistencyMode::kAsync, 0))->applies_whole_steps());
}

}  // namespace
}  // namespace capstan
