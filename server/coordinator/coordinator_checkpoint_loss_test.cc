#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_checkpoints.h"
#include "server/coordinator/scripted_job.h"

// Checkpoints of a job that has lost a worker.
namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Worker 1 dies, and process 301 takes its place.
class CoordinatorCheckpointLossTest : public ScriptedCheckpoints {
 protected:
  static void LoseWorker1(ScriptedJob& job) {
    job.PassTime(absl::Seconds(11), {Server(0), Server(1), Worker(0)});
    ASSERT_FALSE(job.View().workers(1).is_live());
  }
  static void Replace(ScriptedJob& job) {
    v1::RegisterWorkerRequest request;
    request.set_incarnation(301);
    request.set_may_enter_late(true);
    *request.add_tables() = ScriptedJob::Tables({64})[0];
    CallCoordinator(job.coordinator(), request, [](const absl::StatusOr<v1::RegisterReply>& reply) {
      ASSERT_TRUE(reply.ok()) << reply.status();
    });
    ASSERT_TRUE(job.View().workers(1).is_entering());
  }
  static void Enter(ScriptedJob& job, int64_t first_step) {
    v1::NextStep next;
    next.set_worker(1);
    next.set_incarnation(301);
    next.set_step(first_step);
    for (uint32_t server = 0; server < 2; ++server) {
      ASSERT_TRUE(Report(job, server, {}, {next}).ok());
    }
    ASSERT_FALSE(job.View().workers(1).is_entering());
  }
};

TEST_F(CoordinatorCheckpointLossTest, InThePlaceOfALostWorkerAnotherGoesOnWhereNoSliceHasItsSteps) {
  const auto job = Train();
  Do(*job, 1, 20);
  LoseWorker1(*job);
  Ask(*job);
  HoldAll(*job, 30);
  EndAll(*job, {Steps(0, 30, 30), Steps(1, 19, 26, /*is_live=*/false)});
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  const v1::CheckpointManifest& manifest = disk_.manifests[0];
  EXPECT_EQ(manifest.workers(1).first_step(), 26);
  EXPECT_EQ(manifest.step(), 30) << "of the live ones";
  EXPECT_EQ(manifest.workers_lost(), 1u);
  EXPECT_THAT(manifest.replaced_workers(), IsEmpty());
}

TEST_F(CoordinatorCheckpointLossTest, AWorkerThatEntersHasNoFirstStepOfItsOwnYet) {
  const auto job = Train();
  Do(*job, 1, 20);
  LoseWorker1(*job);
  Replace(*job);
  Ask(*job);
  HoldAll(*job, 30);
  EndAll(*job, {Steps(0, 30, 30), Steps(1, 19, 26, /*is_live=*/false)});
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  const v1::CheckpointManifest& manifest = disk_.manifests[0];
  EXPECT_EQ(manifest.workers(1).first_step(), 26);
  EXPECT_EQ(manifest.step(), 30);
  EXPECT_EQ(manifest.workers_lost(), 1u);
  ASSERT_THAT(manifest.replaced_workers(), SizeIs(1));
  EXPECT_EQ(manifest.replaced_workers(0).samples(), 200u);
}

TEST_F(CoordinatorCheckpointLossTest,
       AReplacementThatEntersAfterTheCutGoesOnWhereNoSliceHasItsSteps) {
  const auto job = Train();
  LoseWorker1(*job);
  Replace(*job);
  Ask(*job);
  HoldAll(*job, 30);
  Enter(*job, /*first_step=*/40);
  EndAll(*job, {Steps(0, 30, 30), Steps(1, 19, 30, /*is_live=*/false)});
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  EXPECT_EQ(disk_.manifests[0].workers(1).first_step(), 30) << "not 40: that came later";
  EXPECT_EQ(disk_.manifests[0].step(), 30);
  EXPECT_EQ(disk_.manifests[0].end_step(), 30);
}

TEST_F(CoordinatorCheckpointLossTest,
       AWorkerLostAfterTheCutGoesOnAtTheFirstStepThatSomeSliceLacks) {
  const auto job = Train();
  Ask(*job);
  HoldAll(*job, 30);
  LoseWorker1(*job);
  EndAll(*job, {Steps(0, 25, 30), Steps(1, 19, 26)});
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  EXPECT_EQ(disk_.manifests[0].workers(1).first_step(), 19);
  EXPECT_EQ(disk_.manifests[0].step(), 19);
}

TEST_F(CoordinatorCheckpointLossTest,
       AReplacementThatEntersBetweenTwoCutsGoesOnWhereItEnteredAtTheEarliest) {
  const auto job = Train();
  Do(*job, 1, 20);
  LoseWorker1(*job);
  Replace(*job);
  Enter(*job, /*first_step=*/22);
  Ask(*job);
  HoldAll(*job, 30);
  EndAll(*job, {Steps(0, 25, 30), Steps(1, /*least=*/19, /*most=*/26)});
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  EXPECT_EQ(disk_.manifests[0].workers(1).first_step(), 22)
      << "the later cut has completed the steps 19 to 21 without a push of them";
}

TEST_F(CoordinatorCheckpointLossTest, WithoutALiveWorkerTheStepIsTheSmallestFirstOne) {
  const auto job = Train();
  Ask(*job);
  HoldAll(*job, 30);
  EndAll(*job, {Steps(0, 25, 30, /*is_live=*/false), Steps(1, 19, 26, /*is_live=*/false)});
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  EXPECT_EQ(disk_.manifests[0].step(), 26);
}

}  // namespace
}  // namespace capstan
