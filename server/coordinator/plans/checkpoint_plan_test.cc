#include "server/coordinator/plans/checkpoint_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/coordinator/members/example_facts.h"
#include "server/coordinator/plans/checkpoint_cycle_rig.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

// A job of 100 steps under BSP, with a checkpoint every 40 steps.
class CheckpointPlanTest : public testing::Test {
 protected:
  explicit CheckpointPlanTest(bool stays = false)
      : example_(kServers, /*num_workers=*/2, Job(stays)), consistency_(v1::ConsistencySpec()) {
    EXPECT_TRUE(example_.facts.training.ReportSteps(0, 100).ok());
  }
  static v1::JobSpec Job(bool stays) {
    v1::JobSpec job;
    job.set_stay(stays);
    return job;
  }

  bool Settle() { return plan_.Settle(example_.facts, example_.events); }
  // False if there is none.
  bool DoWork() {
    CheckpointPlan::Work work = plan_.TakeWork();
    if (work == nullptr) return false;
    plan_.EndWork(work(storage_), example_.facts, example_.events);
    return true;
  }
  v1::JobView View() const {
    v1::JobView view;
    consistency_.WriteToView(view);
    plan_.WriteToView(view);
    return view;
  }
  // Each server reports a part.
  void Report(v1::CheckpointPart part) {
    part.set_number(View().checkpoint().number());
    for (uint32_t server = 0; server < kServers; ++server) {
      v1::HeartbeatRequest heartbeat = HeartbeatOf({v1::HeartbeatRequest::SERVER, server});
      *heartbeat.mutable_checkpoint() = part;
      EXPECT_TRUE(plan_.Report(heartbeat).ok());
    }
  }
  // Until the servers write.
  void BeginWriting() {
    EXPECT_FALSE(Settle()) << "the folder is first";
    ASSERT_TRUE(DoWork());
    EXPECT_TRUE(Settle());
    v1::CheckpointPart held;
    held.set_held_step(3);
    Report(held);
    EXPECT_TRUE(Settle());
    EXPECT_EQ(View().checkpoint().step(), 40);
  }
  static v1::CheckpointPart Written(const std::string& error = "") {
    v1::CheckpointPart part;
    part.set_has_ended(true);
    part.set_error(error);
    return part;
  }

  ExampleFacts example_;
  const RestorePoint anew_;
  ConsistencyPlan consistency_;
  FakeStorage storage_;
  CheckpointPlan plan_{EverySteps(40), anew_, consistency_, [] {
                         v1::CheckpointManifest manifest;
                         manifest.set_end_step(40);
                         return manifest;
                       }};
};

TEST_F(CheckpointPlanTest, TheManifestComesWhenAllServersHaveWritten) {
  BeginWriting();
  EXPECT_FALSE(Settle());
  EXPECT_FALSE(DoWork());
  EXPECT_TRUE(plan_.IsBusy(example_.facts));
  Report(Written());
  EXPECT_TRUE(Settle());
  EXPECT_FALSE(View().has_checkpoint());
  EXPECT_EQ(plan_.newest(), "");
  ASSERT_TRUE(DoWork());
  EXPECT_EQ(storage_.published_name, "c1");
  EXPECT_EQ(plan_.newest(), "dir/c1");
  ASSERT_EQ(example_.events.size(), 1u);
  EXPECT_EQ(example_.events[0].text, "the checkpoint of step 0 is complete: dir/c1");
  EXPECT_FALSE(plan_.IsBusy(example_.facts));
}

TEST_F(CheckpointPlanTest, APartOfNoUseEndsTheCheckpointAndTheJobGoesOn) {
  BeginWriting();
  Report(Written("the disk is full"));
  EXPECT_TRUE(Settle());
  ASSERT_TRUE(DoWork());
  EXPECT_EQ(storage_.discarded_name, "c1");
  EXPECT_EQ(storage_.published_name, "");
  ASSERT_EQ(example_.events.size(), 1u);
  EXPECT_EQ(example_.events[0].text,
            "a checkpoint has failed: server 0: the disk is full; the job goes on");
  EXPECT_EQ(example_.events[0].reason, "server 0: the disk is full");
  v1::GetStatusReply status;
  plan_.WriteToStatus(status);
  EXPECT_THAT(status.checkpoint().error(), HasSubstr("the disk is full"));
}

TEST_F(CheckpointPlanTest, ServersHoldBackForOneOfTwoThingsAtATime) {
  v1::SetConsistencyRequest change;
  change.mutable_change()->set_mode(v1::ConsistencySpec::ASYNC);
  ASSERT_TRUE(consistency_.Begin(change, {}).ok());
  EXPECT_FALSE(Settle());
  ASSERT_TRUE(DoWork());
  EXPECT_FALSE(Settle()) << "the change is first";
  for (uint32_t server = 0; server < kServers; ++server) {
    v1::HeartbeatRequest heartbeat = HeartbeatOf({v1::HeartbeatRequest::SERVER, server});
    heartbeat.mutable_held_step()->set_consistency_change(1);
    heartbeat.mutable_held_step()->set_step(3);
    ASSERT_TRUE(consistency_.Report(heartbeat).ok());
  }
  ASSERT_TRUE(consistency_.Settle(example_.facts, example_.events));
  EXPECT_TRUE(Settle());
  change.mutable_change()->set_mode(v1::ConsistencySpec::BSP);
  ASSERT_TRUE(consistency_.Begin(change, {}).ok());
  EXPECT_TRUE(View().has_checkpoint());
  EXPECT_EQ(View().consistency_change(), 0u) << "now the checkpoint is first";
}

TEST_F(CheckpointPlanTest, OnlyAJobThatTrainsOrHasJustTrainedWritesThem) {
  for (const v1::Phase phase : {v1::REGISTERING, v1::PLACING, v1::SAVING, v1::FAILED}) {
    example_.facts.view.set_phase(phase);
    EXPECT_FALSE(Settle());
    EXPECT_FALSE(DoWork()) << v1::Phase_Name(phase);
  }
  example_.facts.view.set_phase(v1::EVALUATING);
  EXPECT_TRUE(plan_.IsBusy(example_.facts)) << "the last one is due";
  EXPECT_FALSE(Settle());
  EXPECT_TRUE(DoWork());
}

class StayingCheckpointPlanTest : public CheckpointPlanTest {
 protected:
  StayingCheckpointPlanTest() : CheckpointPlanTest(/*stays=*/true) {}
};

TEST_F(StayingCheckpointPlanTest, NoStepIsChosenWhileAWorkerEnters) {
  example_.Worker(1).is_entering = true;
  EXPECT_FALSE(Settle());
  EXPECT_FALSE(DoWork());
  example_.Worker(1).is_entering = false;
  BeginWriting();
}

TEST_F(StayingCheckpointPlanTest, TheLastOneIsDueWhenNobodyIsLive) {
  BeginWriting();
  Report(Written());
  ASSERT_TRUE(Settle());
  ASSERT_TRUE(DoWork());
  EXPECT_FALSE(plan_.IsBusy(example_.facts));
  for (const uint32_t id : {0, 1}) example_.Worker(id).end = "it has left";
  EXPECT_TRUE(plan_.IsBusy(example_.facts));
}

TEST_F(CheckpointPlanTest, LiveServersAreEnough) {
  BeginWriting();
  example_.Server(1).end = "it is gone";
  plan_.OnServerLost({1, /*moves_shards=*/true}, example_.facts);
  EXPECT_FALSE(View().has_checkpoint());
  ASSERT_TRUE(DoWork());
  EXPECT_EQ(storage_.discarded_name, "c1");
  EXPECT_EQ(example_.events[0].text,
            "a checkpoint has failed: server 1 was lost while it was written; the job goes on");
  example_.clock.Advance(absl::Seconds(1));
  EXPECT_FALSE(Settle());
  ASSERT_TRUE(DoWork());
  EXPECT_TRUE(Settle());
  v1::HeartbeatRequest heartbeat = HeartbeatOf({v1::HeartbeatRequest::SERVER, 0});
  v1::CheckpointPart& part = *heartbeat.mutable_checkpoint();
  part.set_number(View().checkpoint().number());
  part.set_held_step(3);
  ASSERT_TRUE(plan_.Report(heartbeat).ok());
  EXPECT_TRUE(Settle());
  part.set_has_ended(true);
  ASSERT_TRUE(plan_.Report(heartbeat).ok());
  EXPECT_TRUE(Settle());
  ASSERT_TRUE(DoWork());
  EXPECT_EQ(storage_.published_name, "c2");
}

}  // namespace
}  // namespace capstan
