#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_checkpoints.h"
#include "server/coordinator/scripted_job.h"

// Checkpoints of a running job, as its coordinator leads them.
namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using CoordinatorCheckpointTest = ScriptedCheckpoints;

TEST_F(CoordinatorCheckpointTest, ARequestedOneIsAgreedOnThenWrittenThenCompleted) {
  const auto job = Train();
  EXPECT_EQ(job->View().checkpoint().number(), 0u);
  const Answer answer = Ask(*job);
  EXPECT_EQ(disk_.folders, 1);
  v1::CheckpointOrder order = job->View().checkpoint();
  EXPECT_EQ(order.number(), 1u);
  EXPECT_EQ(order.name(), "") << "servers hold back first";
  Hold(*job, 0, 7);
  EXPECT_EQ(job->View().checkpoint().name(), "");
  Hold(*job, 1, 9);
  order = job->View().checkpoint();
  EXPECT_EQ(order.name(), "c1");
  EXPECT_EQ(order.step(), 9);
  EXPECT_FALSE(answer->has_value());
  for (uint32_t worker = 0; worker < 2; ++worker) Do(*job, worker, 10);
  job->clock().Advance(absl::Seconds(3));
  EndAll(*job, {Steps(0, 9, 9), Steps(1, 9, 9)});
  EXPECT_EQ(job->View().checkpoint().number(), 0u) << "servers have nothing more to do";
  ASSERT_TRUE(answer->has_value() && (*answer)->ok());
  EXPECT_EQ((**answer)->path(), "dir/c1");
  EXPECT_EQ((**answer)->step(), 9);
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  const v1::CheckpointManifest& manifest = disk_.manifests[0];
  EXPECT_EQ(manifest.step(), 9);
  EXPECT_EQ(manifest.end_step(), 9);
  EXPECT_EQ(manifest.steps_total(), 100);
  EXPECT_EQ(manifest.training_seconds(), 3);
  EXPECT_EQ(manifest.tables(0).name(), "w");
  EXPECT_EQ(manifest.consistency(0).consistency().mode(), v1::ConsistencySpec::BSP);
  ASSERT_EQ(manifest.files_size(), 4);
  for (uint32_t shard = 0; shard < 4; ++shard) {
    EXPECT_EQ(manifest.files(static_cast<int>(shard)).shard(), shard);
    EXPECT_EQ(manifest.files(static_cast<int>(shard)).bytes(), 100 + shard);
  }
  EXPECT_EQ(manifest.workers(1).first_step(), 9);
  EXPECT_EQ(manifest.workers(1).progress().samples(), 90u) << "of 100 at step 10";
  EXPECT_EQ(job->Status().checkpoint().newest(), "dir/c1");
  EXPECT_EQ(job->Status().checkpoint().error(), "");
}

TEST_F(CoordinatorCheckpointTest, APartThatIsToldTwiceCountsOnce) {
  const auto job = Train();
  Ask(*job);
  HoldAll(*job, 9);
  const v1::JobView view = job->View();
  const v1::CheckpointPart part = Ended(view, 0, {Steps(0, 9, 9), Steps(1, 9, 9)});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Report(*job, 0, part).ok());
  EXPECT_THAT(disk_.manifests, IsEmpty());
  const v1::CheckpointPart other = Ended(view, 1, {Steps(0, 9, 9), Steps(1, 9, 9)});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Report(*job, 1, other).ok());
  EXPECT_THAT(disk_.manifests, SizeIs(1));
}

TEST_F(CoordinatorCheckpointTest, UnderSspAWorkerGoesOnAtTheFirstStepThatSomeSliceLacks) {
  v1::JobSpec spec = Job(0);
  spec.mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  const auto job = Train(spec);
  Ask(*job);
  HoldAll(*job, 30);
  const v1::JobView view = job->View();
  ASSERT_TRUE(Report(*job, 0, Ended(view, 0, {Steps(0, 12, 13), Steps(1, 20, 24)})).ok());
  ASSERT_TRUE(Report(*job, 1, Ended(view, 1, {Steps(0, 11, 14), Steps(1, 21, 22)})).ok());
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  const v1::CheckpointManifest& manifest = disk_.manifests[0];
  EXPECT_EQ(manifest.workers(0).first_step(), 11);
  EXPECT_EQ(manifest.workers(1).first_step(), 20);
  EXPECT_EQ(manifest.step(), 11) << "the slowest worker's";
  EXPECT_EQ(manifest.end_step(), 24) << "no slice has an update of it";
}

TEST_F(CoordinatorCheckpointTest, AServersErrorEndsTheCheckpointAndNotTheJob) {
  const auto job = Train(/*steps=*/40);
  HoldAll(*job, 5);
  const v1::JobView view = job->View();
  ASSERT_EQ(view.checkpoint().step(), 40);
  v1::CheckpointPart part;
  part.set_number(view.checkpoint().number());
  part.set_has_ended(true);
  part.set_error("c1/shard-00001: expected to write, got \"No space left\x1b on device\"");
  ASSERT_TRUE(Report(*job, 1, part).ok());
  EXPECT_EQ(job->Status().checkpoint().error(), "") << "the other server is still writing";
  ASSERT_TRUE(Report(*job, 0, Ended(view, 0, {Steps(0, 40, 40)})).ok());
  EXPECT_EQ(job->Status().checkpoint().error(),
            "server 1: c1/shard-00001: expected to write, got \"No space left\\x1b on device\"");
  EXPECT_THAT(disk_.manifests, IsEmpty());
  EXPECT_EQ(job->View().phase(), v1::TRAINING);
  EXPECT_EQ(job->View().checkpoint().number(), 0u);
  job->PassTime(absl::Seconds(2), {Server(0), Server(1), Worker(0), Worker(1)});
  EXPECT_EQ(job->View().checkpoint().number(), 2u) << "it is tried again";
}

TEST_F(CoordinatorCheckpointTest, AServerCannotWriteAnotherServersShards) {
  for (const uint32_t strange : {0u, 4u, 1u << 20, ~0u}) {
    const auto job = Train();
    const Answer answer = Ask(*job);
    HoldAll(*job, 9);
    const v1::JobView view = job->View();
    const uint32_t other = 1 - view.server_of_shard(0);
    v1::CheckpointPart part = Ended(view, other, {Steps(0, 9, 9)});
    part.add_files()->set_shard(strange);
    ASSERT_TRUE(Report(*job, other, part).ok());
    ASSERT_TRUE(Report(*job, 1 - other, Ended(view, 1 - other, {Steps(0, 9, 9)})).ok());
    ASSERT_TRUE(answer->has_value());
    EXPECT_THAT(std::string((*answer)->status().message()),
                HasSubstr(absl::StrCat("of its own shards, got one of shard ", strange)));
  }
}

TEST_F(CoordinatorCheckpointTest, AMissingFileOrAThousandWorkersDoNoHarm) {
  const auto job = Train();
  const Answer answer = Ask(*job);
  HoldAll(*job, 9);
  const v1::JobView view = job->View();
  v1::CheckpointPart part = Ended(view, 0, {Steps(0, 9, 9), Steps(1, 9, 9)});
  for (uint32_t worker = 2; worker < 1000; ++worker) *part.add_workers() = Steps(worker, 9, 9);
  part.mutable_files()->RemoveLast();
  ASSERT_TRUE(Report(*job, 0, part).ok());
  ASSERT_TRUE(Report(*job, 1, Ended(view, 1, {})).ok());
  ASSERT_TRUE(answer->has_value());
  EXPECT_THAT(std::string((*answer)->status().message()), HasSubstr("expected the file of shard"));
  EXPECT_EQ(job->View().phase(), v1::TRAINING);
}

TEST_F(CoordinatorCheckpointTest, AFolderThatCannotBeMadeIsToldAndTriedAgain) {
  disk_.created = absl::ResourceExhaustedError("no room");
  const auto job = Train(/*steps=*/40);
  EXPECT_EQ(job->Status().checkpoint().error(), "no room");
  EXPECT_EQ(job->View().checkpoint().number(), 0u);
  disk_.created = absl::OkStatus();
  job->PassTime(absl::Seconds(2), {Server(0), Server(1), Worker(0), Worker(1)});
  EXPECT_NE(job->View().checkpoint().number(), 0u);
}

TEST_F(CoordinatorCheckpointTest, TheJobEndsAfterItsLastCheckpoint) {
  v1::JobSpec spec = Job(0);
  spec.mutable_checkpoint()->set_seconds(1e6);
  const auto job = Train(spec);
  for (uint32_t id = 0; id < 2; ++id) job->FinishSteps(id, 100);
  ASSERT_EQ(job->View().phase(), v1::EVALUATING);
  ASSERT_TRUE(job->ReportResult(0).ok());
  EXPECT_EQ(job->View().phase(), v1::EVALUATING);
  HoldAll(*job, 103);
  EXPECT_EQ(job->View().checkpoint().step(), 100);
  EndAll(*job, {Steps(0, 100, 100), Steps(1, 100, 100)});
  EXPECT_THAT(disk_.manifests, SizeIs(1));
  EXPECT_EQ(disk_.manifests[0].step(), 100);
  EXPECT_EQ(job->View().phase(), v1::DONE);
}

TEST_F(CoordinatorCheckpointTest, WorkersThatAgreeToEndEarlierEndWithACheckpoint) {
  const auto job = Train(/*steps=*/40);
  HoldAll(*job, 5);
  ASSERT_EQ(job->View().checkpoint().step(), 40);
  v1::Progress early;
  early.set_steps_done(22);
  early.set_steps_total(22);
  early.set_ends_early(true);
  job->Heartbeat(Worker(1), job->View().version(), early);
  EXPECT_EQ(job->View().steps_total(), 22);
  EXPECT_EQ(job->View().checkpoint().name(), "") << "nobody gets to step 40";
  Do(*job, 0, 21);
  ASSERT_EQ(job->View().phase(), v1::TRAINING) << job->View().reason();
  job->Heartbeat(Worker(0), job->View().version(), early);
  ASSERT_EQ(job->View().phase(), v1::EVALUATING) << job->View().reason();
  HoldAll(*job, 23);
  EXPECT_EQ(job->View().checkpoint().step(), 22);
  EndAll(*job, {Steps(0, 22, 22), Steps(1, 22, 22)});
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  EXPECT_EQ(disk_.manifests[0].step(), 22);
  EXPECT_EQ(disk_.manifests[0].steps_total(), 22);
  ASSERT_TRUE(job->ReportResult(0).ok());
  EXPECT_EQ(job->View().phase(), v1::DONE) << "no other checkpoint is due";
}

TEST_F(CoordinatorCheckpointTest, AResultThatIsToldAgainDuringTheLastCheckpointMakesNoNewView) {
  v1::JobSpec spec = Job(0);
  spec.mutable_checkpoint()->set_seconds(1e6);
  const auto job = Train(spec);
  for (uint32_t id = 0; id < 2; ++id) job->FinishSteps(id, 100);
  ASSERT_TRUE(job->ReportResult(0, /*test_accuracy=*/0.9).ok());
  const uint64_t version = job->View().version();
  // An evaluator that tells its result at each view would otherwise have a new view each time.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(job->ReportResult(0, /*test_accuracy=*/0.1).ok());
  EXPECT_EQ(job->View().version(), version);
  EXPECT_EQ(job->View().phase(), v1::EVALUATING);
  double accuracy = 0;
  job->coordinator().OnEnd(
      [&](const JobOutcome& outcome) { accuracy = outcome.result.test_accuracy(); });
  HoldAll(*job, 103);
  EndAll(*job, {Steps(0, 100, 100), Steps(1, 100, 100)});
  ASSERT_EQ(job->View().phase(), v1::DONE);
  job->clock().Advance(absl::Seconds(20));
  EXPECT_EQ(accuracy, 0.9) << "the first result counts";
}

TEST_F(CoordinatorCheckpointTest, AnErrorInTheLastCheckpointDoesNotKeepTheJobFromItsEnd) {
  v1::JobSpec spec = Job(0);
  spec.mutable_checkpoint()->set_seconds(1e6);
  const auto job = Train(spec);
  for (uint32_t id = 0; id < 2; ++id) job->FinishSteps(id, 100);
  ASSERT_TRUE(job->ReportResult(0).ok());
  HoldAll(*job, 103);
  const uint64_t number = job->View().checkpoint().number();
  for (uint32_t server = 0; server < 2; ++server) {
    v1::CheckpointPart part;
    part.set_number(number);
    part.set_has_ended(true);
    part.set_error("full");
    ASSERT_TRUE(Report(*job, server, part).ok());
  }
  EXPECT_EQ(job->View().phase(), v1::DONE);
  EXPECT_EQ(job->Status().checkpoint().error(), "server 0: full");
}

TEST_F(CoordinatorCheckpointTest, AChangeOfTheConsistencyWaitsForTheStepAndTheOtherWayRound) {
  const auto job = Train();
  v1::SetConsistencyRequest change;
  change.mutable_change()->set_mode(v1::ConsistencySpec::ASYNC);
  const auto ignore = [](const absl::StatusOr<v1::SetConsistencyReply>&) {};
  Ask(*job);
  CallCoordinator(job->coordinator(), change, ignore);
  EXPECT_EQ(job->View().consistency_change(), 0u);
  EXPECT_EQ(job->View().checkpoint().name(), "");
  HoldAll(*job, 9);
  EXPECT_EQ(job->View().consistency_change(), 1u) << "its turn";
  EXPECT_EQ(job->View().checkpoint().step(), 9);
  EndAll(*job, {Steps(0, 9, 9), Steps(1, 9, 9)});
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  Ask(*job);
  EXPECT_EQ(job->View().consistency_change(), 1u);
  EXPECT_EQ(job->View().checkpoint().number(), 0u) << "its turn comes later";
  for (uint32_t server = 0; server < 2; ++server) {
    ASSERT_TRUE(Report(*job, server, {}, {}, /*held_for_change=*/14).ok());
  }
  EXPECT_EQ(job->View().consistency(1).first_step(), 14);
  EXPECT_EQ(job->View().consistency_change(), 0u);
  EXPECT_EQ(job->View().checkpoint().number(), 2u);
}

TEST_F(CoordinatorCheckpointTest, BeforeItsBspBeginsAJobIsNotUnderBsp) {
  v1::JobSpec spec = Job(/*steps=*/10);
  spec.mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  const auto job = Train(spec);
  v1::SetConsistencyRequest change;
  change.mutable_change()->set_mode(v1::ConsistencySpec::BSP);
  CallCoordinator(job->coordinator(), change,
                  [](const absl::StatusOr<v1::SetConsistencyReply>&) {});
  for (uint32_t server = 0; server < 2; ++server) {
    ASSERT_TRUE(Report(*job, server, {}, {}, /*held_for_change=*/25).ok());
  }
  ASSERT_EQ(job->View().consistency(1).first_step(), 25);
  EXPECT_EQ(job->View().checkpoint().number(), 0u) << "the next one is due at step 10";
  for (uint32_t id = 0; id < 2; ++id) Do(*job, id, 25);
  EXPECT_EQ(job->View().checkpoint().number(), 1u);
}

TEST_F(CoordinatorCheckpointTest, OnlyAJobThatTrainsAndHasAFolderHasCheckpoints) {
  ScriptedJob placing(Job(0), nullptr);
  placing.RegisterAll();
  EXPECT_THAT(std::string((*Ask(placing))->status().message()), HasSubstr("phase PLACING"));
  ScriptedJob without;
  without.StartTraining();
  EXPECT_THAT(std::string((*Ask(without))->status().message()), HasSubstr("--checkpoint_dir"));
}

TEST_F(CoordinatorCheckpointTest, WhoWaitsIsToldTheEndOfTheJobOrOfTheCoordinator) {
  const auto failed = Train();
  const Answer of_failed = Ask(*failed);
  failed->coordinator().Fail("interrupted");
  ASSERT_TRUE(of_failed->has_value());
  EXPECT_TRUE(absl::IsFailedPrecondition((*of_failed)->status()));
  const auto stopped = Train();
  const Answer of_stopped = Ask(*stopped);
  stopped->DestroyCoordinator();
  ASSERT_TRUE(of_stopped->has_value());
  EXPECT_TRUE(absl::IsCancelled((*of_stopped)->status()));
}

TEST_F(CoordinatorCheckpointTest, AJobThatEndsWhileItsFolderIsMadeHasNoOrder) {
  const auto job = Train();
  disk_.on_create = [&] { job->coordinator().Fail("interrupted"); };
  const Answer answer = Ask(*job);
  ASSERT_TRUE(answer->has_value());
  EXPECT_TRUE(absl::IsFailedPrecondition((*answer)->status()));
  EXPECT_EQ(job->View().phase(), v1::FAILED);
  EXPECT_EQ(job->View().checkpoint().number(), 0u);
}

TEST_F(CoordinatorCheckpointTest, ARequestDuringTheWorkOnFilesIsAnsweredToo) {
  const auto job = Train();
  Answer second;
  disk_.on_create = [&] {
    if (second == nullptr) second = Ask(*job);
  };
  const Answer first = Ask(*job);
  EXPECT_EQ(disk_.folders, 1) << "one checkpoint serves both";
  HoldAll(*job, 9);
  EndAll(*job, {Steps(0, 9, 9), Steps(1, 9, 9)});
  ASSERT_TRUE(first->has_value() && second->has_value());
  EXPECT_EQ((**first)->path(), "dir/c1");
  EXPECT_EQ((**second)->path(), "dir/c1");
}

}  // namespace
}  // namespace capstan
