// Checkpoints on request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/coordinator/plans/checkpoint_cycle_rig.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

TEST(CheckpointCycleTest, WithoutAPeriodOnlyARequestBeginsOne) {
  CycleRig rig(EverySteps(0));
  rig.training.steps_done = 50;
  EXPECT_FALSE(rig.Begin());
  const uint64_t number = rig.cycle.Request().value();
  EXPECT_TRUE(rig.cycle.IsBusy(rig.training));
  EXPECT_EQ(rig.Agree(/*held_step=*/53), 53);
  EXPECT_FALSE(rig.cycle.Reply(number).has_value());
  ASSERT_TRUE(rig.Complete(53).ok());
  const auto reply = rig.cycle.Reply(number);
  ASSERT_TRUE(reply.has_value() && reply->ok());
  EXPECT_EQ((*reply)->path(), "dir/c1");
  EXPECT_EQ((*reply)->step(), 53);
  rig.training.has_ended = true;
  EXPECT_FALSE(rig.Begin()) << "no last one either";
  EXPECT_FALSE(rig.cycle.IsBusy(rig.training));
}

TEST(CheckpointCycleTest, AJobWithoutAFolderRefusesARequest) {
  CycleRig rig{v1::CheckpointSpec()};
  const absl::Status status = rig.cycle.Request().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--checkpoint_dir"));
}

TEST(CheckpointCycleTest, ARequestDoesNotWaitForAPeriodicOneFarAhead) {
  CycleRig rig(EverySteps(40));
  ASSERT_EQ(rig.Agree(3), 40);
  const uint64_t periodic = rig.Order().number();
  const uint64_t number = rig.cycle.Request().value();
  EXPECT_NE(number, periodic);
  EXPECT_EQ(rig.AgreeOnStep(/*held_step=*/8), 8);
  rig.EndPart(0, periodic);
  rig.EndPart(1, periodic);
  EXPECT_EQ(rig.cycle.EndedParts(kServers), nullptr) << "parts of what was given up";
  ASSERT_TRUE(rig.Complete(8).ok());
  EXPECT_EQ(rig.cycle.Reply(number).value()->step(), 8);
  EXPECT_EQ(rig.Agree(/*held_step=*/12), 40) << "the periodic one is still due";
}

TEST(CheckpointCycleTest, ARequestIsServedByAPeriodicOneWithoutAStep) {
  for (int stage = 0; stage < 3; ++stage) {
    SCOPED_TRACE(stage);
    CycleRig rig(EverySteps(40));
    ASSERT_TRUE(rig.Begin());
    if (stage > 0) {
      ASSERT_TRUE(rig.DoWork().ok());
    }
    if (stage > 1) {
      ASSERT_TRUE(rig.cycle.BeginAgreeing());
    }
    const uint64_t number = rig.cycle.Request().value();
    EXPECT_EQ(rig.cycle.Request().value(), number) << "a second request joins";
    if (stage == 0) {
      ASSERT_TRUE(rig.DoWork().ok());
    }
    if (stage < 2) {
      ASSERT_TRUE(rig.cycle.BeginAgreeing());
    }
    for (uint32_t server = 0; server < kServers; ++server) rig.Hold(server, 5);
    ASSERT_TRUE(rig.cycle.ChooseStep(kServers, rig.training));
    EXPECT_EQ(rig.Order().step(), 5) << "not 40";
    ASSERT_TRUE(rig.Complete(5).ok());
    EXPECT_EQ(rig.cycle.Reply(number).value()->path(), "dir/c1");
  }
}

TEST(CheckpointCycleTest, ARequestWaitsForAPeriodicOneThatAServerHasWritten) {
  CycleRig rig(EverySteps(40));
  ASSERT_EQ(rig.Agree(3), 40);
  rig.EndPart(0, rig.Order().number());
  const uint64_t number = rig.cycle.Request().value();
  EXPECT_EQ(rig.Order().step(), 40);
  ASSERT_TRUE(rig.Complete(40).ok());
  EXPECT_FALSE(rig.cycle.Reply(number).has_value());
  EXPECT_EQ(rig.Agree(/*held_step=*/44), 44);
  ASSERT_TRUE(rig.Complete(44).ok());
  EXPECT_EQ(rig.cycle.Reply(number).value()->step(), 44);
}

TEST(CheckpointCycleTest, ARequestWaitsForAPeriodicOneThatIsCutNow) {
  CycleRig rig(EverySeconds(5));
  EXPECT_FALSE(rig.Begin());
  rig.training.now += absl::Seconds(5);
  ASSERT_EQ(rig.Agree(7), 7);
  const uint64_t periodic = rig.Order().number();
  const uint64_t number = rig.cycle.Request().value();
  EXPECT_EQ(rig.Order().number(), periodic) << "what has been written of it is not in vain";
  ASSERT_TRUE(rig.Complete(7).ok());
  ASSERT_EQ(rig.Agree(9), 9);
  ASSERT_TRUE(rig.Complete(9).ok());
  EXPECT_EQ(rig.cycle.Reply(number).value()->step(), 9);
}

TEST(CheckpointCycleTest, AStepBeyondAnEarlyEndIsLeft) {
  CycleRig rig(EverySteps(40));
  ASSERT_EQ(rig.Agree(3), 40);
  EXPECT_FALSE(rig.cycle.LeaveStepBeyondEnd(rig.training));
  const uint64_t left = rig.Order().number();
  rig.training.steps_total = 22;
  EXPECT_TRUE(rig.cycle.LeaveStepBeyondEnd(rig.training));
  EXPECT_EQ(rig.AgreeOnStep(/*held_step=*/23), 22);
  EXPECT_NE(rig.Order().number(), left);
  EXPECT_FALSE(rig.cycle.LeaveStepBeyondEnd(rig.training)) << "all get there";
  ASSERT_TRUE(rig.Complete(22).ok());
  rig.training.has_ended = true;
  EXPECT_FALSE(rig.cycle.IsBusy(rig.training)) << "it was the last one";
}

TEST(CheckpointCycleTest, ARequestIsAnsweredAlsoIfItsStepIsBeyondAnEarlyEnd) {
  CycleRig rig(EverySteps(0));
  const uint64_t number = rig.cycle.Request().value();
  ASSERT_EQ(rig.Agree(/*held_step=*/23), 23);
  const uint64_t next = rig.cycle.Request().value();
  rig.training.steps_total = 22;
  EXPECT_TRUE(rig.cycle.LeaveStepBeyondEnd(rig.training));
  EXPECT_EQ(rig.AgreeOnStep(/*held_step=*/23), 22);
  ASSERT_TRUE(rig.Complete(22).ok());
  EXPECT_EQ(rig.cycle.Reply(number).value()->step(), 22);
  EXPECT_EQ(rig.cycle.Reply(next).value()->step(), 22);
  EXPECT_FALSE(rig.cycle.IsBusy(rig.training));
}

TEST(CheckpointCycleTest, TwoRequestsOneAfterTheOtherAreBothAnswered) {
  CycleRig rig(EverySteps(0));
  const uint64_t first = rig.cycle.Request().value();
  EXPECT_EQ(rig.cycle.Request().value(), first) << "it has not begun";
  ASSERT_EQ(rig.Agree(5), 5);
  const uint64_t second = rig.cycle.Request().value();
  EXPECT_NE(second, first) << "a step of now may be later than step 5";
  ASSERT_TRUE(rig.Complete(5).ok());
  EXPECT_EQ(rig.cycle.Reply(first).value()->step(), 5);
  EXPECT_FALSE(rig.cycle.Reply(second).has_value());
  ASSERT_EQ(rig.Agree(9), 9);
  ASSERT_TRUE(rig.Complete(9).ok());
  EXPECT_EQ(rig.cycle.Reply(second).value()->step(), 9);
}

TEST(CheckpointCycleTest, ARequestAfterAFailureDoesNotWait) {
  CycleRig rig(EverySteps(10));
  ASSERT_EQ(rig.Agree(3), 10);
  rig.Discard(absl::UnavailableError("a server's disk"));
  EXPECT_FALSE(rig.Order().number() > 0) << "servers have nothing to do";
  const uint64_t number = rig.cycle.Request().value();
  rig.storage.created = absl::UnavailableError("no disk");
  ASSERT_TRUE(rig.Begin());
  EXPECT_FALSE(rig.DoWork().ok());
  EXPECT_EQ(rig.cycle.Reply(number).value().status().message(), "no disk");
}

}  // namespace
}  // namespace capstan
