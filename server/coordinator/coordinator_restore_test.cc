#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_job.h"

// A job that goes on from a checkpoint.
namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of step 40 of 100. Worker 0 goes on at step 40, worker 1 at step 43.
RestorePoint Restored() {
  RestorePoint restored;
  restored.path = "dir/c7";
  v1::CheckpointManifest& manifest = restored.manifest;
  manifest.set_step(40);
  manifest.set_end_step(44);
  manifest.set_steps_total(100);
  *manifest.mutable_job() = ScriptedJob::Job();
  *manifest.add_tables() = ScriptedJob::Tables({64})[0];
  manifest.add_consistency()->mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  v1::ConsistencyPeriod& changed = *manifest.add_consistency();
  changed.set_first_step(20);
  changed.mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  for (const int64_t first_step : {40, 43}) {
    v1::CheckpointWorker& worker = *manifest.add_workers();
    worker.set_first_step(first_step);
    worker.mutable_progress()->set_steps_done(first_step);
    worker.mutable_progress()->set_samples(static_cast<uint64_t>(10 * first_step));
    worker.mutable_progress()->set_seconds(8);
  }
  manifest.add_replaced_workers()->set_samples(5);
  manifest.set_workers_lost(1);
  manifest.set_training_seconds(12);
  return restored;
}

ScriptedJob RestoredJob(const v1::JobSpec& spec = ScriptedJob::Job()) {
  return ScriptedJob(spec, nullptr, Restored());
}

TEST(CoordinatorRestoreTest, WorkersGoOnAtTheCheckpointsSteps) {
  ScriptedJob job = RestoredJob();
  job.StartTraining();
  EXPECT_EQ(job.View().workers(0).first_step(), 40);
  EXPECT_EQ(job.View().workers(1).first_step(), 43);
  EXPECT_EQ(job.View().restored_step(), 40);
  EXPECT_EQ(job.Status().checkpoint().restored(), "dir/c7");
  EXPECT_EQ(job.Status().checkpoint().restored_step(), 40);
  std::string path;
  CallCoordinator(job.coordinator(), v1::GetJobRequest(),
                  [&](absl::StatusOr<v1::GetJobReply> reply) { path = reply->restore(); });
  EXPECT_EQ(path, "dir/c7") << "servers read their shards there";
}

TEST(CoordinatorRestoreTest, ACheckpointOfStep0IsOneToo) {
  RestorePoint restored = Restored();
  restored.manifest.set_step(0);
  ScriptedJob job(ScriptedJob::Job(), nullptr, restored);
  EXPECT_EQ(job.View().restored_step(), 1);
  EXPECT_EQ(job.Status().checkpoint().restored_step(), 0);
  EXPECT_EQ(ScriptedJob().View().restored_step(), 0);
}

TEST(CoordinatorRestoreTest, TheConsistencyWithItsChangesStays) {
  ScriptedJob job = RestoredJob();
  ASSERT_EQ(job.View().consistency_size(), 2) << "the job's own has not changed";
  EXPECT_EQ(job.View().consistency(1).first_step(), 20);
  EXPECT_EQ(job.View().consistency(1).consistency().mode(), v1::ConsistencySpec::SSP);
}

TEST(CoordinatorRestoreTest, AnotherConsistencyBeginsAtTheFirstStepThatNobodyHasDone) {
  v1::JobSpec spec = ScriptedJob::Job();
  spec.mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  ScriptedJob job = RestoredJob(spec);
  ASSERT_EQ(job.View().consistency_size(), 3);
  EXPECT_EQ(job.View().consistency(2).first_step(), 44);
  EXPECT_EQ(job.View().consistency(2).consistency().mode(), v1::ConsistencySpec::ASYNC);
}

TEST(CoordinatorRestoreTest, ProgressAndSummaryGoOnWhereTheyWere) {
  ScriptedJob job = RestoredJob();
  job.StartTraining();
  EXPECT_EQ(job.Status().progress(1).samples(), 430u) << "before the first report";
  EXPECT_EQ(job.Status().progress(1).steps_done(), 43);
  std::optional<JobOutcome> outcome;
  job.coordinator().OnEnd([&](JobOutcome ended) { outcome = std::move(ended); });
  job.clock().Advance(absl::Seconds(3));
  std::vector<ScriptedJob::Beat> beats;
  for (uint32_t id = 0; id < 2; ++id) job.FinishSteps(id, /*steps=*/100);
  ASSERT_TRUE(job.ReportResult(0).ok());
  ASSERT_EQ(job.View().phase(), v1::DONE);
  job.clock().Advance(absl::Seconds(20));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->training_time, absl::Seconds(15));
  EXPECT_EQ(outcome->workers_lost, 1);
  ASSERT_EQ(outcome->last_status.replaced_workers_size(), 1);
  EXPECT_EQ(outcome->last_status.replaced_workers(0).samples(), 5u);
  EXPECT_EQ(outcome->last_status.progress(0).samples(), 500u) << "400 and 100";
  EXPECT_EQ(outcome->last_status.progress(0).steps_done(), 100);
}

TEST(CoordinatorRestoreTest, TheOutcomeNotesThatWorkersComputeOnAnotherKind) {
  RestorePoint restored = Restored();
  for (v1::CheckpointWorker& worker : *restored.manifest.mutable_workers()) {
    worker.mutable_progress()->set_device("cpu (A)");
  }
  ScriptedJob job(ScriptedJob::Job(), nullptr, restored);
  job.StartTraining();
  EXPECT_EQ(job.Status().progress(0).device(), "cpu (A)") << "before the first report";
  std::optional<JobOutcome> outcome;
  job.coordinator().OnEnd([&](JobOutcome ended) { outcome = std::move(ended); });
  v1::Progress progress;
  progress.set_device("cpu (B)");
  job.Heartbeat(Worker(0), job.View().version(), progress);
  EXPECT_EQ(job.Status().progress(0).device(), "cpu (B)");
  job.coordinator().Fail("the test ends");
  job.clock().Advance(absl::Seconds(20));
  ASSERT_TRUE(outcome.has_value());
  ASSERT_EQ(outcome->device_notes.size(), 1u);
  EXPECT_THAT(outcome->device_notes[0], HasSubstr("worker 0 computes on B, and the workers before "
                                                  "the checkpoint of step 40 on A"));
}

TEST(CoordinatorRestoreTest, AJobWhoseStepsAreAllDoneIsEvaluatedAtOnce) {
  RestorePoint restored = Restored();
  for (v1::CheckpointWorker& worker : *restored.manifest.mutable_workers()) {
    worker.set_first_step(100);
  }
  restored.manifest.set_step(100);
  restored.manifest.set_end_step(100);
  v1::JobSpec spec = ScriptedJob::Job();
  spec.mutable_checkpoint()->set_dir("dir");
  spec.mutable_checkpoint()->set_steps(10);
  ScriptedJob job(spec, nullptr, restored);
  job.StartTraining();
  for (uint32_t id = 0; id < 2; ++id) job.FinishSteps(id, /*steps=*/100);
  EXPECT_EQ(job.View().phase(), v1::EVALUATING);
  ASSERT_TRUE(job.ReportResult(0).ok());
  EXPECT_EQ(job.View().phase(), v1::DONE) << "it needs no other checkpoint";
}

TEST(CoordinatorRestoreTest, AJobWithFewerStepsThanAreInTheCheckpointFails) {
  ScriptedJob job = RestoredJob();
  job.StartTraining();
  v1::Progress progress;
  progress.set_steps_total(43);
  job.Heartbeat(Worker(0), job.View().version(), progress);
  EXPECT_EQ(job.View().phase(), v1::FAILED);
  EXPECT_THAT(job.View().reason(), HasSubstr("expected at least the 44 steps that are in dir/c7, "
                                             "got 43"));
}

TEST(CoordinatorRestoreTest, TablesOfAnotherModelAreRefused) {
  ScriptedJob job = RestoredJob();
  const absl::Status status = job.RegisterWorker(1, ScriptedJob::Tables({5})).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST(CoordinatorRestoreTest, WorkersHaveTheArraysOfOwnStateOfTheCheckpointAndOfEachOther) {
  RestorePoint restored = Restored();
  restored.manifest.set_own_arrays(2);
  ScriptedJob job(ScriptedJob::Job(), nullptr, restored);
  EXPECT_THAT(std::string(job.RegisterWorker(1).status().message()),
              HasSubstr("expected 2 arrays of own state, as the checkpoint has, got 0"));
  for (const uint64_t incarnation : {200, 201}) {
    ASSERT_TRUE(job.RegisterWorker(incarnation, ScriptedJob::Tables({64}), 2).ok());
  }
  for (const uint64_t incarnation : {100, 101}) {
    ASSERT_TRUE(job.RegisterServer(incarnation).ok());
  }
  EXPECT_EQ(job.View().own_arrays(), 2u) << "servers need it for their shards";

  ScriptedJob other;
  ASSERT_TRUE(other.RegisterWorker(1, ScriptedJob::Tables({64}), 1).ok());
  EXPECT_THAT(std::string(other.RegisterWorker(2).status().message()),
              HasSubstr("expected 1 arrays of own state, as the first worker has, got 0"));
  EXPECT_FALSE(ScriptedJob().RegisterWorker(1, ScriptedJob::Tables({64}), 5).ok());
}

}  // namespace
}  // namespace capstan
