#include "server/coordinator/checkpoint_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr size_t kServers = 2;

// Names checkpoints "c1", "c2", ..., and answers as told.
class FakeStorage : public CheckpointStorage {
 public:
  uint64_t token() const override { return 1; }
  std::string PathOf(const std::string& name) const override { return name; }
  absl::StatusOr<std::string> Create() override {
    if (!created.ok()) return created;
    return absl::StrCat("c", ++count);
  }
  absl::Status Publish(const std::string& name, const v1::CheckpointManifest&) override {
    published_name = name;
    return published;
  }
  absl::Status RemoveOld(uint32_t keep) override {
    kept = keep;
    return removed;
  }

  absl::Status created, published, removed;
  std::string published_name;
  uint32_t kept = 0;
  int count = 0;
};

v1::CheckpointSpec EverySteps(uint64_t steps) {
  v1::CheckpointSpec spec;
  spec.set_dir("dir");
  spec.set_steps(steps);
  return spec;
}

v1::CheckpointSpec EverySeconds(double seconds) {
  v1::CheckpointSpec spec = EverySteps(0);
  spec.set_seconds(seconds);
  return spec;
}

// A plan, with the coordinator and 2 servers around it. The training has 100 steps under BSP.
class PlanRig {
 public:
  explicit PlanRig(const v1::CheckpointSpec& spec, int64_t restored_step = 0)
      : plan(spec, restored_step) {
    training.now = absl::UnixEpoch();
    training.steps_total = 100;
    training.is_bsp = true;
  }

  bool Begin() { return plan.Begin(training); }
  absl::StatusOr<std::string> DoWork() {
    CheckpointPlan::Work work = plan.TakeWork();
    if (work == nullptr) return absl::NotFoundError("there is no work");
    absl::StatusOr<std::string> result = work(storage);
    plan.EndWork(result, training.now);
    return result;
  }
  v1::CheckpointOrder Order() const {
    v1::JobView view;
    plan.WriteTo(view);
    return view.checkpoint();
  }
  v1::CheckpointStatus Status() const {
    v1::CheckpointStatus status;
    plan.WriteTo(status);
    return status;
  }
  void Hold(uint32_t server, int64_t step) {
    v1::CheckpointPart part;
    part.set_number(Order().number());
    part.set_held_step(step);
    EXPECT_TRUE(plan.Report(server, part).ok());
  }
  // From the beginning to the order with a step. Returns the step.
  int64_t Agree(int64_t held_step) {
    EXPECT_TRUE(Begin());
    EXPECT_TRUE(DoWork().ok());
    return AgreeOnStep(held_step);
  }
  int64_t AgreeOnStep(int64_t held_step) {
    EXPECT_TRUE(plan.BeginAgreeing());
    for (uint32_t server = 0; server < kServers; ++server) Hold(server, held_step);
    EXPECT_TRUE(plan.ChooseStep(kServers, training));
    return Order().step();
  }
  void EndPart(uint32_t server, uint64_t number) {
    v1::CheckpointPart part;
    part.set_number(number);
    part.set_has_ended(true);
    EXPECT_TRUE(plan.Report(server, part).ok());
  }
  // The servers write, and the coordinator publishes the manifest with this step.
  absl::StatusOr<std::string> Complete(int64_t step) {
    for (uint32_t server = 0; server < kServers; ++server) EndPart(server, Order().number());
    EXPECT_NE(plan.EndedParts(kServers), nullptr);
    v1::CheckpointManifest manifest;
    manifest.set_step(step);
    plan.Publish(manifest);
    return DoWork();
  }

  FakeStorage storage;
  CheckpointPlan::Training training;
  CheckpointPlan plan;
};

TEST(CheckpointPlanTest, UnderBspCheckpointsAreAtExactMultiplesAndAtTheLastStep) {
  PlanRig rig(EverySteps(40));
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

TEST(CheckpointPlanTest, ServersThatHoldAnOldStepBackMakeNoSecondCheckpointOfIt) {
  PlanRig rig(EverySteps(40));
  ASSERT_EQ(rig.Agree(3), 40);
  ASSERT_TRUE(rig.Complete(40).ok());
  EXPECT_EQ(rig.Agree(3), 80);
}

TEST(CheckpointPlanTest, AMultipleThatIsPassedWhileOneIsWrittenIsLeftOut) {
  PlanRig rig(EverySteps(10));
  ASSERT_EQ(rig.Agree(3), 10);
  ASSERT_TRUE(rig.Complete(10).ok());
  EXPECT_EQ(rig.Agree(/*held_step=*/31), 40);
}

TEST(CheckpointPlanTest, NothingBeginsBeforeTheNumberOfStepsIsKnown) {
  PlanRig rig(EverySteps(10));
  rig.training.steps_total = 0;
  EXPECT_FALSE(rig.Begin());
  ASSERT_TRUE(rig.plan.Request().ok());
  EXPECT_FALSE(rig.Begin()) << "its step could be beyond the last one, and never come";
  rig.training.steps_total = 2;
  EXPECT_EQ(rig.Agree(/*held_step=*/3), 2);
}

TEST(CheckpointPlanTest, OutsideBspACheckpointIsDueOnceTheSlowestWorkerIsAtItsStep) {
  PlanRig rig(EverySteps(10));
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

TEST(CheckpointPlanTest, ByTheClockACheckpointIsDueThatLongAfterTheLastOne) {
  PlanRig rig(EverySeconds(5));
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

TEST(CheckpointPlanTest, WithoutAPeriodOnlyARequestBeginsOne) {
  PlanRig rig(EverySteps(0));
  rig.training.steps_done = 50;
  EXPECT_FALSE(rig.Begin());
  const uint64_t number = rig.plan.Request().value();
  EXPECT_TRUE(rig.plan.IsBusy(rig.training));
  EXPECT_EQ(rig.Agree(/*held_step=*/53), 53);
  EXPECT_FALSE(rig.plan.Reply(number).has_value());
  ASSERT_TRUE(rig.Complete(53).ok());
  const auto reply = rig.plan.Reply(number);
  ASSERT_TRUE(reply.has_value() && reply->ok());
  EXPECT_EQ((*reply)->path(), "dir/c1");
  EXPECT_EQ((*reply)->step(), 53);
  rig.training.has_ended = true;
  EXPECT_FALSE(rig.Begin()) << "no last one either";
  EXPECT_FALSE(rig.plan.IsBusy(rig.training));
}

TEST(CheckpointPlanTest, AJobWithoutAFolderRefusesARequest) {
  PlanRig rig{v1::CheckpointSpec()};
  const absl::Status status = rig.plan.Request().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--checkpoint_dir"));
}

TEST(CheckpointPlanTest, ARequestDoesNotWaitForAPeriodicOneFarAhead) {
  PlanRig rig(EverySteps(40));
  ASSERT_EQ(rig.Agree(3), 40);
  const uint64_t periodic = rig.Order().number();
  const uint64_t number = rig.plan.Request().value();
  EXPECT_NE(number, periodic);
  EXPECT_EQ(rig.AgreeOnStep(/*held_step=*/8), 8);
  rig.EndPart(0, periodic);
  rig.EndPart(1, periodic);
  EXPECT_EQ(rig.plan.EndedParts(kServers), nullptr) << "parts of what was given up";
  ASSERT_TRUE(rig.Complete(8).ok());
  EXPECT_EQ(rig.plan.Reply(number).value()->step(), 8);
  EXPECT_EQ(rig.Agree(/*held_step=*/12), 40) << "the periodic one is still due";
}

TEST(CheckpointPlanTest, ARequestIsServedByAPeriodicOneWithoutAStep) {
  for (int stage = 0; stage < 3; ++stage) {
    SCOPED_TRACE(stage);
    PlanRig rig(EverySteps(40));
    ASSERT_TRUE(rig.Begin());
    if (stage > 0) {
      ASSERT_TRUE(rig.DoWork().ok());
    }
    if (stage > 1) {
      ASSERT_TRUE(rig.plan.BeginAgreeing());
    }
    const uint64_t number = rig.plan.Request().value();
    EXPECT_EQ(rig.plan.Request().value(), number) << "a second request joins";
    if (stage == 0) {
      ASSERT_TRUE(rig.DoWork().ok());
    }
    if (stage < 2) {
      ASSERT_TRUE(rig.plan.BeginAgreeing());
    }
    for (uint32_t server = 0; server < kServers; ++server) rig.Hold(server, 5);
    ASSERT_TRUE(rig.plan.ChooseStep(kServers, rig.training));
    EXPECT_EQ(rig.Order().step(), 5) << "not 40";
    ASSERT_TRUE(rig.Complete(5).ok());
    EXPECT_EQ(rig.plan.Reply(number).value()->path(), "dir/c1");
  }
}

TEST(CheckpointPlanTest, ARequestWaitsForAPeriodicOneThatAServerHasWritten) {
  PlanRig rig(EverySteps(40));
  ASSERT_EQ(rig.Agree(3), 40);
  rig.EndPart(0, rig.Order().number());
  const uint64_t number = rig.plan.Request().value();
  EXPECT_EQ(rig.Order().step(), 40);
  ASSERT_TRUE(rig.Complete(40).ok());
  EXPECT_FALSE(rig.plan.Reply(number).has_value());
  EXPECT_EQ(rig.Agree(/*held_step=*/44), 44);
  ASSERT_TRUE(rig.Complete(44).ok());
  EXPECT_EQ(rig.plan.Reply(number).value()->step(), 44);
}

TEST(CheckpointPlanTest, ARequestWaitsForAPeriodicOneThatIsCutNow) {
  PlanRig rig(EverySeconds(5));
  EXPECT_FALSE(rig.Begin());
  rig.training.now += absl::Seconds(5);
  ASSERT_EQ(rig.Agree(7), 7);
  const uint64_t periodic = rig.Order().number();
  const uint64_t number = rig.plan.Request().value();
  EXPECT_EQ(rig.Order().number(), periodic) << "what has been written of it is not in vain";
  ASSERT_TRUE(rig.Complete(7).ok());
  ASSERT_EQ(rig.Agree(9), 9);
  ASSERT_TRUE(rig.Complete(9).ok());
  EXPECT_EQ(rig.plan.Reply(number).value()->step(), 9);
}

TEST(CheckpointPlanTest, TwoRequestsOneAfterTheOtherAreBothAnswered) {
  PlanRig rig(EverySteps(0));
  const uint64_t first = rig.plan.Request().value();
  EXPECT_EQ(rig.plan.Request().value(), first) << "it has not begun";
  ASSERT_EQ(rig.Agree(5), 5);
  const uint64_t second = rig.plan.Request().value();
  EXPECT_NE(second, first) << "a step of now may be later than step 5";
  ASSERT_TRUE(rig.Complete(5).ok());
  EXPECT_EQ(rig.plan.Reply(first).value()->step(), 5);
  EXPECT_FALSE(rig.plan.Reply(second).has_value());
  ASSERT_EQ(rig.Agree(9), 9);
  ASSERT_TRUE(rig.Complete(9).ok());
  EXPECT_EQ(rig.plan.Reply(second).value()->step(), 9);
}

TEST(CheckpointPlanTest, AfterAFailureTheNextAttemptWaitsLongerEachTime) {
  PlanRig rig(EverySteps(10));
  rig.storage.created = absl::ResourceExhaustedError("the disk\n is full");
  ASSERT_TRUE(rig.Begin());
  for (const int seconds : {1, 2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_FALSE(rig.DoWork().ok());
    EXPECT_EQ(rig.Status().error(), "the disk\\x0a is full");
    EXPECT_FALSE(rig.plan.IsBusy(rig.training));
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

TEST(CheckpointPlanTest, ARequestAfterAFailureDoesNotWait) {
  PlanRig rig(EverySteps(10));
  ASSERT_EQ(rig.Agree(3), 10);
  rig.plan.Fail(absl::UnavailableError("a server's disk"), rig.training.now);
  EXPECT_FALSE(rig.Order().number() > 0) << "servers have nothing to do";
  const uint64_t number = rig.plan.Request().value();
  rig.storage.created = absl::UnavailableError("no disk");
  ASSERT_TRUE(rig.Begin());
  EXPECT_FALSE(rig.DoWork().ok());
  EXPECT_EQ(rig.plan.Reply(number).value().status().message(), "no disk");
}

TEST(CheckpointPlanTest, WhatCannotBeRemovedIsNoFailure) {
  PlanRig rig(EverySteps(40));
  rig.storage.removed = absl::UnavailableError("an old one stays");
  rig.Agree(3);
  ASSERT_TRUE(rig.Complete(40).ok());
  EXPECT_EQ(rig.Status().step(), 40);
  EXPECT_EQ(rig.Status().error(), "");
}

TEST(CheckpointPlanTest, AManifestThatCannotBeWrittenIsAFailure) {
  PlanRig rig(EverySteps(40));
  rig.storage.published = absl::UnavailableError("no manifest");
  rig.Agree(3);
  EXPECT_FALSE(rig.Complete(40).ok());
  EXPECT_EQ(rig.Status().newest(), "");
  EXPECT_EQ(rig.Status().error(), "no manifest");
  EXPECT_EQ(rig.storage.kept, 0u) << "older ones stay";
}

TEST(CheckpointPlanTest, AnEndedTrainingHasOneLastCheckpointEvenIfItFails) {
  PlanRig rig(EverySeconds(1000));
  EXPECT_FALSE(rig.Begin());
  rig.training.has_ended = true;
  EXPECT_TRUE(rig.plan.IsBusy(rig.training)) << "the job's end waits for it";
  EXPECT_EQ(rig.Agree(/*held_step=*/103), 100);
  EXPECT_TRUE(rig.plan.IsBusy(rig.training));
  rig.plan.Fail(absl::UnavailableError("no disk"), rig.training.now);
  EXPECT_FALSE(rig.plan.IsBusy(rig.training)) << "the job's end waits no more";
  rig.training.now += absl::Hours(1);
  EXPECT_FALSE(rig.Begin());
}

TEST(CheckpointPlanTest, ACheckpointOfTheLastStepIsTheLastOne) {
  PlanRig rig(EverySteps(40), /*restored_step=*/100);
  EXPECT_FALSE(rig.Begin());
  rig.training.has_ended = true;
  EXPECT_FALSE(rig.plan.IsBusy(rig.training));
}

TEST(CheckpointPlanTest, ACheckpointThatFailsAtTheEndIsTriedOnceMore) {
  PlanRig rig(EverySteps(40));
  rig.Agree(3);
  rig.training.has_ended = true;
  rig.plan.Fail(absl::UnavailableError("no disk"), rig.training.now);
  EXPECT_TRUE(rig.plan.IsBusy(rig.training)) << "it began before the end";
  EXPECT_EQ(rig.Agree(/*held_step=*/103), 100);
}

TEST(CheckpointPlanTest, TheStepIsTheLargestHeldOneOfAllServers) {
  PlanRig rig(EverySteps(0));
  ASSERT_TRUE(rig.plan.Request().ok());
  ASSERT_TRUE(rig.Begin());
  EXPECT_EQ(rig.Order().number(), 0u) << "no folder yet";
  EXPECT_FALSE(rig.plan.BeginAgreeing());
  ASSERT_TRUE(rig.DoWork().ok());
  ASSERT_TRUE(rig.plan.BeginAgreeing());
  EXPECT_FALSE(rig.plan.BeginAgreeing());
  EXPECT_TRUE(rig.plan.is_agreeing());
  EXPECT_EQ(rig.Order().name(), "");
  rig.Hold(0, 12);
  rig.Hold(0, 12);
  EXPECT_FALSE(rig.plan.ChooseStep(kServers, rig.training)) << "one server has told it twice";
  rig.Hold(1, 9);
  ASSERT_TRUE(rig.plan.ChooseStep(kServers, rig.training));
  EXPECT_EQ(rig.Order().name(), "c1");
  EXPECT_EQ(rig.Order().step(), 12);
  rig.Hold(1, 99);
  EXPECT_EQ(rig.Order().step(), 12) << "a late heartbeat changes nothing";
  EXPECT_EQ(rig.plan.EndedParts(kServers), nullptr);
}

TEST(CheckpointPlanTest, AStepThatNoJobGetsToIsRefused) {
  PlanRig rig(EverySteps(10));
  rig.Begin();
  rig.DoWork().value();
  rig.plan.BeginAgreeing();
  for (const int64_t step : {int64_t{-1}, (int64_t{1} << 53) + 1}) {
    v1::CheckpointPart held, ended, worker;
    for (v1::CheckpointPart* part : {&held, &ended, &worker}) part->set_number(1);
    held.set_held_step(step);
    ended.set_end_step(step);
    worker.add_workers()->set_most(step);
    for (const v1::CheckpointPart& part : {held, ended, worker}) {
      EXPECT_TRUE(absl::IsInvalidArgument(rig.plan.Report(0, part))) << part.DebugString();
    }
  }
  EXPECT_FALSE(rig.plan.ChooseStep(1, rig.training)) << "nothing was taken over";
}

}  // namespace
}  // namespace capstan
