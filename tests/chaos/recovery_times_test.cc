#include "tests/chaos/recovery_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/history/history_builder.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

// Two steps of worker 0. The second one began at 50 us, and was answered at 90 us.
HistoryBuilder TwoSteps() {
  HistoryBuilder builder(v1::ContractRecord::SSP, 1);
  builder.Ask(0, 100, 0, 1, 10).Answer(40, 1, 0, {{0, 0}});
  builder.Ask(0, 100, 1, 2, 50).Answer(90, 2, 0, {{0, 0}, {0, 1}});
  return builder;
}

TEST(RecoveryTimesTest, AStepCountsIfAllOfItFollowsTheLoss) {
  const History history = TwoSteps().Build();
  EXPECT_THAT(
      RecoveryTimes(history,
                    {{"KILL", false, 5'000}, {"KILL", false, 20'000}, {"STOP", false, 60'000}}),
      ElementsAre(Optional(35'000), Optional(70'000), std::nullopt));
}

TEST(RecoveryTimesTest, AStepWithoutAllAnswersDoesNotCount) {
  HistoryBuilder builder(v1::ContractRecord::SSP, 1);
  builder.Ask(0, 100, 0, 1, 10).Ask(1, 101, 0, 1, 20).Answer(60, 1, 0, {{1, 0}});
  EXPECT_THAT(RecoveryTimes(builder.Build(), {{"KILL", false, 5'000}}),
              ElementsAre(Optional(55'000)));
}

TEST(RecoveryTimesTest, AfterTheLossOfAWorkerAnotherProcessHasToDoAStep) {
  HistoryBuilder builder = TwoSteps();
  builder.Member(v1::MembershipRecord::ENTERED, 1, 102, /*at_us=*/60, /*first_step=*/1);
  builder.Ask(1, 102, 1, 2, 70).Answer(120, 3, 0, {{0, 0}, {0, 1}, {1, 1}});
  builder.Member(v1::MembershipRecord::ENTERED, 0, 103, /*at_us=*/60, /*first_step=*/2);
  builder.Ask(0, 103, 2, 3, 80).Answer(130, 4, 0, {{0, 0}, {0, 1}, {1, 1}, {0, 2}});
  EXPECT_THAT(RecoveryTimes(builder.Build(), {{"KILL", true, 20'000}, {"KILL", true, 20'000}}),
              ElementsAre(Optional(100'000), Optional(110'000)));
}

TEST(RecoveryTimesTest, TheLongestStepIsThatOfOneProcess) {
  HistoryBuilder builder = TwoSteps();
  EXPECT_EQ(LongestStep(builder.Build()), 40'000);
  builder.Member(v1::MembershipRecord::ENTERED, 1, 102, /*at_us=*/60, /*first_step=*/1);
  builder.Ask(1, 102, 1, 2, 500).Answer(510, 3, 0, {{0, 0}, {0, 1}, {1, 1}});
  EXPECT_EQ(LongestStep(builder.Build()), 40'000);
}

TEST(RecoveryTimesTest, LossesAreReadFromLines) {
  const std::vector<Loss> losses = ReadLosses("KILL server 12\nSTOP worker 345\n").value();
  ASSERT_EQ(losses.size(), 2);
  EXPECT_EQ(losses[1].signal, "STOP");
  EXPECT_TRUE(losses[1].is_worker);
  EXPECT_EQ(losses[1].time_ns, 345);
  EXPECT_THAT(std::string(ReadLosses("KILL client 1").status().message()),
              HasSubstr("KILL client 1"));
}

}  // namespace
}  // namespace capstan
