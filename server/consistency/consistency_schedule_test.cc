#include "server/consistency/consistency_schedule.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace capstan {
namespace {

constexpr ConsistencyMode kBsp = ConsistencyMode::kBsp;
constexpr ConsistencyMode kSsp = ConsistencyMode::kSsp;
constexpr ConsistencyMode kAsync = ConsistencyMode::kAsync;

std::shared_ptr<const ConsistencySchedule> Schedule(std::vector<ConsistencyPeriod> periods) {
  return MakeConsistencySchedule(periods).value();
}

TEST(ConsistencyScheduleTest, APullIsDecidedByThePolicyOfItsStep) {
  const auto schedule = Schedule({{Step(0), kSsp, 1}, {Step(10), kSsp, 3}, {Step(20), kAsync}});
  EXPECT_EQ(schedule->Decide(Step(9), Step(7)), PullDecision::kWait);
  EXPECT_EQ(schedule->Decide(Step(9), Step(8)), PullDecision::kAnswer);
  EXPECT_EQ(schedule->Decide(Step(10), Step(6)), PullDecision::kWait);
  EXPECT_EQ(schedule->Decide(Step(10), Step(7)), PullDecision::kAnswer);
  EXPECT_EQ(schedule->Decide(Step(20), Step(0)), PullDecision::kAnswer);
}

TEST(ConsistencyScheduleTest, WithoutWholeStepsAPushIsNeverKept) {
  const auto schedule = Schedule({{Step(0), kSsp, 1}, {Step(10), kAsync}});
  EXPECT_EQ(schedule->KeptUntil(Step(5)), Step(0));
  EXPECT_EQ(schedule->KeptUntil(Step(15)), Step(0));
  EXPECT_FALSE(schedule->AppliesWholeStep(Step(5)));
}

TEST(ConsistencyScheduleTest, AWholeStepIsKeptUntilAllHavePushedIt) {
  const auto schedule = Schedule({{Step(0), kAsync}, {Step(10), kBsp}});
  EXPECT_FALSE(schedule->AppliesWholeStep(Step(9)));
  EXPECT_TRUE(schedule->AppliesWholeStep(Step(10)));
  EXPECT_EQ(schedule->KeptUntil(Step(9)), Step(0));
  EXPECT_EQ(schedule->KeptUntil(Step(10)), Step(11));
  EXPECT_EQ(schedule->FirstKept(Step(12)), Step(10)) << "workers may still be far behind";
  EXPECT_EQ(schedule->Decide(Step(10), Step(9)), PullDecision::kWait);
  EXPECT_EQ(schedule->Decide(Step(10), Step(10)), PullDecision::kAnswer);
}

TEST(ConsistencyScheduleTest, WhatFollowsWholeStepsWaitsForTheLastOfThem) {
  const auto schedule = Schedule({{Step(0), kBsp}, {Step(5), kBsp}, {Step(10), kAsync}});
  EXPECT_EQ(schedule->KeptUntil(Step(10)), Step(10));
  EXPECT_EQ(schedule->KeptUntil(Step(12)), Step(10));
  EXPECT_EQ(schedule->FirstKept(Step(10)), Step(0)) << "of both periods of whole steps";
  EXPECT_EQ(schedule->Decide(Step(10), Step(9)), PullDecision::kWait) << "read-my-writes";
  EXPECT_EQ(schedule->Decide(Step(10), Step(10)), PullDecision::kAnswer);
  EXPECT_EQ(schedule->Decide(Step(15), Step(10)), PullDecision::kAnswer);
}

TEST(ConsistencyScheduleTest, LaterPeriodsWaitForTheLatestWholeSteps) {
  const auto schedule = Schedule({{Step(0), kBsp},
                                  {Step(3), kSsp, 9},
                                  {Step(6), kBsp},
                                  {Step(8), kSsp, 9},
                                  {Step(9), kAsync}});
  EXPECT_EQ(schedule->KeptUntil(Step(4)), Step(3));
  EXPECT_EQ(schedule->KeptUntil(Step(9)), Step(8));
  EXPECT_EQ(schedule->FirstKept(Step(9)), Step(6));
}

TEST(MakeConsistencyScheduleTest, RefusesPeriodsOutOfOrder) {
  EXPECT_TRUE(absl::IsInvalidArgument(MakeConsistencySchedule({}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeConsistencySchedule(std::vector<ConsistencyPeriod>{{Step(1), kBsp}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeConsistencySchedule(std::vector<ConsistencyPeriod>{{Step(0), kBsp}, {Step(0), kSsp, 1}})
          .status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeConsistencySchedule(std::vector<ConsistencyPeriod>{{Step(0), kSsp, -1}}).status()));
}

}  // namespace
}  // namespace capstan
