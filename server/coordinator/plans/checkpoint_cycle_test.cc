#include "server/coordinator/plans/checkpoint_cycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/coordinator/plans/checkpoint_cycle_rig.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

TEST(CheckpointCycleTest, UnderBspCheckpointsAreAtExactMultiplesAndAtTheLastStep) {
  CycleRig rig(EverySteps(40));
  EXPECT_EQ(rig.Agree(/*held_step=*/3), 40) << "agreed on before any worker gets there";
  ASSERT_TRUE(rig.Complete(40).ok());
  EXPECT_EQ(rig.Agree(80), 80) << "the held step itself is a multiple";
  ASSERT_TRUE(rig.Complete(80).ok());
  EXPECT_EQ(rig.Agree(86), 100) << "no step 120";
  ASSERT_TRUE(rig.Complete(100).ok());
  EXPECT_FALSE(rig.Begin());
  EXPECT_EQ(rig.storage.published_name, "c3");
  EXPECT_EQ(rig.storage.kept, 2u) << "--keep";
  EXPECT_EQ(rig.Status().newest(), "dir/c3");
  EXPECT_EQ(rig.Status().step(), 100);
}

TEST(CheckpointCycleTest, ServersThatHoldAnOldStepBackMakeNoSecondCheckpointOfIt) {
  CycleRig rig(EverySteps(40));
  ASSERT_EQ(rig.Agree(3), 40);
  ASSERT_TRUE(rig.Complete(40).ok());
  EXPECT_EQ(rig.Agree(3), 80);
}

TEST(CheckpointCycleTest, AMultipleThatIsPassedWhileOneIsWrittenIsLeftOut) {
  CycleRig rig(EverySteps(10));
  ASSERT_EQ(rig.Agree(3), 10);
  ASSERT_TRUE(rig.Complete(10).ok());
  EXPECT_EQ(rig.Agree(/*held_step=*/31), 40);
}

TEST(CheckpointCycleTest, NothingBeginsBeforeTheNumberOfStepsIsKnown) {
  CycleRig rig(EverySteps(10));
  rig.training.steps_total = 0;
  EXPECT_FALSE(rig.Begin());
  ASSERT_TRUE(rig.cycle.Request().ok());
  EXPECT_FALSE(rig.Begin()) << "its step could be beyond the last one, and never come";
  rig.training.steps_total = 2;
  EXPECT_EQ(rig.Agree(/*held_step=*/3), 2);
}

TEST(CheckpointCycleTest, OutsideBspACheckpointIsDueOnceTheSlowestWorkerIsAtItsStep) {
  CycleRig rig(EverySteps(10));
  rig.training.is_bsp = false;
  rig.training.steps_done = 9;
  EXPECT_FALSE(rig.Begin());
  rig.training.steps_done = 10;
  EXPECT_EQ(rig.Agree(/*held_step=*/17), 17) << "no multiple: slices are cut as they are";
  ASSERT_TRUE(rig.Complete(/*step=*/13).ok());
  rig.training.steps_done = 19;
  EXPECT_FALSE(rig.Begin());
  rig.training.steps_done = 20;
  EXPECT_TRUE(rig.Begin());
}

TEST(CheckpointCycleTest, ByTheClockACheckpointIsDueThatLongAfterTheLastOne) {
  CycleRig rig(EverySeconds(5));
  EXPECT_FALSE(rig.Begin());
  rig.training.now += absl::Seconds(4.9);
  EXPECT_FALSE(rig.Begin());
  rig.training.now += absl::Seconds(0.1);
  EXPECT_EQ(rig.Agree(7), 7);
  rig.training.now += absl::Seconds(3);
  EXPECT_FALSE(rig.Begin()) << "one at a time";
  ASSERT_TRUE(rig.Complete(7).ok());
  rig.training.now += absl::Seconds(4.9);
  EXPECT_FALSE(rig.Begin());
  rig.training.now += absl::Seconds(0.1);
  EXPECT_TRUE(rig.Begin());
}

TEST(CheckpointCycleTest, AfterAFailureTheNextAttemptWaitsLongerEachTime) {
  CycleRig rig(EverySteps(10));
  rig.storage.created = absl::ResourceExhaustedError("the disk\n is full");
  ASSERT_TRUE(rig.Begin());
  for (const int seconds : {1, 2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_FALSE(rig.DoWork().ok());
    EXPECT_EQ(rig.Status().error(), "the disk\\x0a is full");
    EXPECT_FALSE(rig.cycle.IsBusy(rig.training));
    rig.training.now += absl::Seconds(seconds) - absl::Milliseconds(1);
    EXPECT_FALSE(rig.Begin());
    rig.training.now += absl::Milliseconds(1);
    ASSERT_TRUE(rig.Begin());
  }
  rig.storage.created = absl::OkStatus();
  ASSERT_TRUE(rig.DoWork().ok());
  rig.AgreeOnStep(3);
  ASSERT_TRUE(rig.Complete(10).ok());
  EXPECT_EQ(rig.Status().error(), "");
  EXPECT_TRUE(rig.Begin()) << "the next one is due at once again";
}

TEST(CheckpointCycleTest, WhatCannotBeRemovedIsNoFailure) {
  CycleRig rig(EverySteps(40));
  rig.storage.removed = absl::UnavailableError("an old one stays");
  rig.Agree(3);
  ASSERT_TRUE(rig.Complete(40).ok());
  EXPECT_EQ(rig.Status().step(), 40);
  EXPECT_EQ(rig.Status().error(), "");
}

TEST(CheckpointCycleTest, AManifestThatCannotBeWrittenIsAFailure) {
  CycleRig rig(EverySteps(40));
  rig.storage.published = absl::UnavailableError("no manifest");
  rig.Agree(3);
  EXPECT_FALSE(rig.Complete(40).ok());
  EXPECT_EQ(rig.Status().newest(), "");
  EXPECT_EQ(rig.Status().error(), "no manifest");
  EXPECT_EQ(rig.storage.kept, 0u) << "older ones stay";
}

TEST(CheckpointCycleTest, AnEndedTrainingHasOneLastCheckpointEvenIfItFails) {
  CycleRig rig(EverySeconds(1000));
  EXPECT_FALSE(rig.Begin());
  rig.training.has_ended = true;
  EXPECT_TRUE(rig.cycle.IsBusy(rig.training)) << "the job's end waits for it";
  EXPECT_EQ(rig.Agree(/*held_step=*/103), 100);
  EXPECT_TRUE(rig.cycle.IsBusy(rig.training));
  rig.Discard(absl::UnavailableError("no disk"));
  EXPECT_FALSE(rig.cycle.IsBusy(rig.training)) << "the job's end waits no more";
  rig.training.now += absl::Hours(1);
  EXPECT_FALSE(rig.Begin());
}

// No later checkpoint would remove it.
TEST(CheckpointCycleTest, TheFolderOfAFailedLastCheckpointGoesBeforeTheJobEnds) {
  CycleRig rig(EverySteps(100));
  rig.training.has_ended = true;
  rig.Agree(/*held_step=*/100);
  rig.cycle.Discard(absl::UnavailableError("a server's disk"));
  EXPECT_TRUE(rig.cycle.IsBusy(rig.training)) << "the job's end waits";
  EXPECT_FALSE(rig.DoWork().ok());
  EXPECT_EQ(rig.storage.discarded_name, "c1");
  EXPECT_EQ(rig.Status().error(), "a server's disk");
  EXPECT_FALSE(rig.cycle.IsBusy(rig.training));
}

TEST(CheckpointCycleTest, TheFolderWithoutAManifestGoes) {
  CycleRig rig(EverySteps(100));
  rig.training.has_ended = true;
  rig.Agree(/*held_step=*/100);
  rig.storage.published = absl::UnavailableError("no manifest");
  EXPECT_FALSE(rig.Complete(100).ok());
  EXPECT_EQ(rig.storage.discarded_name, "c1");
}

TEST(CheckpointCycleTest, ACheckpointOfTheLastStepIsTheLastOne) {
  CycleRig rig(EverySteps(40), /*restored_step=*/100);
  EXPECT_FALSE(rig.Begin());
  rig.training.has_ended = true;
  EXPECT_FALSE(rig.cycle.IsBusy(rig.training));
}

TEST(CheckpointCycleTest, ACheckpointThatFailsAtTheEndIsTriedOnceMore) {
  CycleRig rig(EverySteps(40));
  rig.Agree(3);
  rig.training.has_ended = true;
  rig.Discard(absl::UnavailableError("no disk"));
  EXPECT_TRUE(rig.cycle.IsBusy(rig.training)) << "it began before the end";
  EXPECT_EQ(rig.Agree(/*held_step=*/103), 100);
}

TEST(CheckpointCycleTest, TheStepIsTheLargestHeldOneOfAllServers) {
  CycleRig rig(EverySteps(0));
  ASSERT_TRUE(rig.cycle.Request().ok());
  ASSERT_TRUE(rig.Begin());
  EXPECT_EQ(rig.Order().number(), 0u) << "no folder yet";
  EXPECT_FALSE(rig.cycle.BeginAgreeing());
  ASSERT_TRUE(rig.DoWork().ok());
  ASSERT_TRUE(rig.cycle.BeginAgreeing());
  EXPECT_FALSE(rig.cycle.BeginAgreeing());
  EXPECT_TRUE(rig.cycle.is_agreeing());
  EXPECT_EQ(rig.Order().name(), "");
  rig.Hold(0, 12);
  rig.Hold(0, 12);
  EXPECT_FALSE(rig.cycle.ChooseStep(kServers, rig.training)) << "one server has told it twice";
  rig.Hold(1, 9);
  ASSERT_TRUE(rig.cycle.ChooseStep(kServers, rig.training));
  EXPECT_EQ(rig.Order().name(), "c1");
  EXPECT_EQ(rig.Order().step(), 12);
  rig.Hold(1, 99);
  EXPECT_EQ(rig.Order().step(), 12) << "a late heartbeat changes nothing";
  EXPECT_EQ(rig.cycle.EndedParts(kServers), nullptr);
}

TEST(CheckpointCycleTest, AStepThatNoJobGetsToIsRefused) {
  CycleRig rig(EverySteps(10));
  rig.Begin();
  rig.DoWork().value();
  rig.cycle.BeginAgreeing();
  for (const int64_t step : {int64_t{-1}, (int64_t{1} << 53) + 1}) {
    v1::CheckpointPart held, ended, worker;
    for (v1::CheckpointPart* part : {&held, &ended, &worker}) part->set_number(1);
    held.set_held_step(step);
    ended.set_end_step(step);
    worker.add_workers()->set_most(step);
    for (const v1::CheckpointPart& part : {held, ended, worker}) {
      EXPECT_TRUE(absl::IsInvalidArgument(rig.cycle.Report(0, part))) << part.DebugString();
    }
  }
  EXPECT_FALSE(rig.cycle.ChooseStep(1, rig.training)) << "nothing was taken over";
}

TEST(CheckpointCycleTest, AfterTheLossOfAServerTheyAgreeAnew) {
  CycleRig rig(EverySteps(0));
  ASSERT_TRUE(rig.cycle.Request().ok());
  ASSERT_TRUE(rig.Begin());
  ASSERT_TRUE(rig.DoWork().ok());
  ASSERT_TRUE(rig.cycle.BeginAgreeing());
  rig.Hold(0, 50);
  rig.cycle.NoteLostServer(0, /*moves_shards=*/true);
  EXPECT_TRUE(rig.cycle.is_agreeing());
  rig.Hold(1, 9);
  EXPECT_FALSE(rig.cycle.ChooseStep(kServers, rig.training)) << "server 0 has lost its report";
  ASSERT_TRUE(rig.cycle.ChooseStep(/*num_servers=*/1, rig.training));
  EXPECT_EQ(rig.Order().step(), 9);
}

TEST(CheckpointCycleTest, OneThatIsBeingWrittenIsDiscardedWhenShardsMoveAndTriedAgain) {
  CycleRig rig(EverySteps(40));
  const uint64_t number = rig.cycle.Request().value();
  EXPECT_EQ(rig.Agree(3), 3);
  rig.EndPart(1, rig.Order().number());
  rig.cycle.NoteLostServer(0, /*moves_shards=*/true);
  EXPECT_EQ(rig.Order().number(), 0u) << "nobody writes it any more";
  EXPECT_EQ(rig.cycle.EndedParts(/*num_servers=*/1), nullptr);
  EXPECT_FALSE(rig.DoWork().ok());
  EXPECT_EQ(rig.storage.discarded_name, "c1");
  EXPECT_EQ(rig.Status().error(), "server 0 was lost while it was written");
  EXPECT_EQ(rig.cycle.Reply(number), std::nullopt) << "it gets the next one";
  EXPECT_TRUE(rig.Begin());
}

TEST(CheckpointCycleTest, OneThatNobodyHasAskedForWaitsBeforeItIsTriedAgain) {
  CycleRig rig(EverySteps(40));
  EXPECT_EQ(rig.Agree(3), 40);
  rig.cycle.NoteLostServer(0, /*moves_shards=*/true);
  EXPECT_FALSE(rig.DoWork().ok());
  EXPECT_FALSE(rig.Begin());
  rig.training.now += absl::Seconds(1);
  EXPECT_TRUE(rig.Begin());
}

TEST(CheckpointCycleTest, OneThatIsBeingWrittenGoesOnWhenNoShardMoves) {
  CycleRig rig(EverySteps(40));
  EXPECT_EQ(rig.Agree(3), 40);
  const uint64_t number = rig.Order().number();
  rig.EndPart(0, number);
  rig.cycle.NoteLostServer(0, /*moves_shards=*/false);
  EXPECT_EQ(rig.Order().number(), number);
  rig.EndPart(1, number);
  EXPECT_EQ(rig.cycle.EndedParts(kServers), nullptr) << "server 0 is another process";
  rig.EndPart(0, number);
  EXPECT_NE(rig.cycle.EndedParts(kServers), nullptr);
}

TEST(CheckpointCycleTest, TheLastOneIsTriedAgainAtOnceWhenAServerWasLost) {
  CycleRig rig(EverySteps(40));
  rig.training.has_ended = true;
  EXPECT_EQ(rig.Agree(/*held_step=*/100), 100);
  rig.cycle.NoteLostServer(0, /*moves_shards=*/true);
  EXPECT_TRUE(rig.cycle.IsBusy(rig.training));
  EXPECT_FALSE(rig.DoWork().ok());
  EXPECT_TRUE(rig.cycle.IsBusy(rig.training));
  EXPECT_EQ(rig.Agree(/*held_step=*/100), 100);
}

TEST(CheckpointCycleTest, ItsFolderAndItsManifestNeedNoServer) {
  CycleRig rig(EverySteps(40));
  ASSERT_TRUE(rig.Begin());
  rig.cycle.NoteLostServer(0, /*moves_shards=*/true);
  ASSERT_TRUE(rig.DoWork().ok()) << "the folder is being made";
  rig.cycle.NoteLostServer(0, /*moves_shards=*/true);
  EXPECT_EQ(rig.AgreeOnStep(3), 40) << "it has been made";
  for (uint32_t server = 0; server < kServers; ++server) rig.EndPart(server, rig.Order().number());
  rig.cycle.Publish({});
  rig.cycle.NoteLostServer(0, /*moves_shards=*/true);
  EXPECT_TRUE(rig.DoWork().ok());
  EXPECT_EQ(rig.storage.published_name, "c1");
}

}  // namespace
}  // namespace capstan
