// Jobs whose workers train alone for many steps, and then exchange once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/model_file/model_file.h"
#include "tests/cluster/bsp_bits.h"
#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/local_cluster.h"
#include "tests/cluster/local_steps_jobs.h"
#include "worker/engine/cpu_trainer.h"
#include "worker/engine/local_steps_engine.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Engine>> MakeLocalStepsEngine(const EngineOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<LocalTrainer> trainer, CpuTrainer::Create(options));
  return LocalStepsEngine::Create(std::move(trainer), options);
}

ClusterResult RunJob(const v1::JobSpec& job) { return RunRounds(job, MakeLocalStepsEngine); }
JobOutcome RunToTheEnd(const v1::JobSpec& job) {
  return RunRoundsToTheEnd(job, MakeLocalStepsEngine);
}

TEST(LocalStepsClusterTest, AJobHasTheValuesOfPlainLoops) {
  for (const auto type : {v1::OptimizerSpec::SGD, v1::OptimizerSpec::ADAMW}) {
    for (const auto& [fragments, delay] : {std::pair(1u, 0u), {1u, 3u}, {2u, 0u}, {2u, 1u}}) {
      v1::JobSpec job = RoundsJob(/*local_steps=*/4, /*rounds=*/5);
      job.mutable_model()->add_hidden(24);
      v1::LocalStepsSpec& local_steps = *job.mutable_training()->mutable_local_steps();
      local_steps.set_fragments(fragments);
      local_steps.set_fragment_sync_delay(delay);
      local_steps.mutable_optimizer()->set_type(type);
      local_steps.mutable_optimizer()->set_learning_rate(0.02);
      local_steps.mutable_optimizer()->set_epsilon(1e-3);
      local_steps.mutable_optimizer()->set_weight_decay(type == v1::OptimizerSpec::ADAMW ? 0.1 : 0);
      EXPECT_LT(DistanceFromReference(job, MakeLocalStepsEngine), 2e-4)
          << v1::OptimizerSpec::Type_Name(type) << ", " << fragments << " fragments, delay "
          << delay;
    }
  }
}

TEST(LocalStepsClusterTest, ARestoredJobHasTheBitsOfAnUndisturbedOne) {
  for (const auto type : {v1::OptimizerSpec::SGD, v1::OptimizerSpec::NESTEROV,
                          v1::OptimizerSpec::ADAGRAD, v1::OptimizerSpec::ADAMW}) {
    for (const char* codec : {"float32", "int8"}) {
      v1::JobSpec job = RoundsJob(/*local_steps=*/5, /*rounds=*/9);
      job.mutable_scheduler()->set_slice_bytes(4 << 10);
      job.mutable_codec()->set_push(codec);
      v1::LocalOptimizerSpec& optimizer =
          *job.mutable_training()->mutable_local_steps()->mutable_optimizer();
      optimizer.set_type(type);
      optimizer.set_learning_rate(0.01);
      const auto [undisturbed, restored] = HashesOfOneAndTwoLives(job, MakeLocalStepsEngine);
      EXPECT_EQ(undisturbed, restored) << v1::OptimizerSpec::Type_Name(type) << ", " << codec;
    }
  }
}

TEST(LocalStepsClusterTest, ARestoredJobWithFragmentsGoesOn) {
  v1::JobSpec job = RoundsJob(/*local_steps=*/6, /*rounds=*/9);
  job.mutable_training()->mutable_local_steps()->set_fragments(3);
  job.mutable_training()->mutable_local_steps()->set_fragment_sync_delay(1);
  const auto [undisturbed, restored] = HashesOfOneAndTwoLives(job, MakeLocalStepsEngine);
  EXPECT_NE(restored, 0u);
  EXPECT_NE(undisturbed, 0u);
}

TEST(LocalStepsClusterTest, ProgressCountsLocalStepsAndTheirSamples) {
  v1::JobSpec job = DigitsJob(/*epochs=*/2);  // 2 x 23 batches of a worker
  job.mutable_training()->mutable_local_steps()->set_sync_every(20);
  FillOuterOptimizer(&job);
  const JobOutcome outcome = RunToTheEnd(job);
  uint64_t samples = 0;
  for (const v1::Progress& progress : outcome.last_status.progress()) {
    EXPECT_EQ(progress.steps_done(), 3);
    EXPECT_EQ(progress.local_steps(), 60u);
    EXPECT_GT(progress.drift(), 0.01);
    EXPECT_GT(progress.loss(), 0.1);
    EXPECT_LT(progress.loss(), 2.5) << "the mean over the local steps";
    samples += progress.samples();
  }
  // Two epochs are 2 x 1438 samples in 46 batches of each worker; 14 follow.
  EXPECT_NEAR(static_cast<double>(samples), 1438.0 * 60 / 23, 30);
  EXPECT_EQ(outcome.last_status.view().local_steps().sync_every(), 20);
}

TEST(LocalStepsClusterTest, ARoundByTimeHasTheStepsThatFitIn) {
  v1::JobSpec job = RoundsJob(/*local_steps=*/0, /*rounds=*/8);
  job.mutable_training()->mutable_local_steps()->set_round_seconds(0.1);
  job.mutable_training()->mutable_local_steps()->set_fragments(2);
  FillOuterOptimizer(&job);
  const JobOutcome outcome = RunToTheEnd(job);
  for (const v1::Progress& progress : outcome.last_status.progress()) {
    EXPECT_GE(progress.local_steps(), 8u) << "one for each round";
    EXPECT_GE(progress.median_step_seconds(), 0.05);
  }
}

TEST(LocalStepsClusterTest, AsyncRoundsByAdagradLearn) {
  // Downpour SGD: Dean et al., "Large Scale Distributed Deep Networks", NeurIPS 2012.
  v1::JobSpec job = RoundsJob(/*local_steps=*/5, /*rounds=*/150);
  job.mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::ADAGRAD);
  job.mutable_optimizer()->set_learning_rate(0.05);
  EXPECT_GT(RunToTheEnd(job).result.test_accuracy(), 0.9);
}

TEST(LocalStepsClusterTest, AFragmentHasALayer) {
  v1::JobSpec job = RoundsJob(/*local_steps=*/20, /*rounds=*/2);
  job.mutable_training()->mutable_local_steps()->set_fragments(4);
  EXPECT_THAT(
      RunJob(job).workers[0].message(),
      HasSubstr("--fragments: expected at most one for each of the model's 3 layers, got 4"));
}

TEST(LocalStepsClusterTest, AFailedJobEndsWithinARound) {
  v1::JobSpec job = RoundsJob(/*local_steps=*/30, /*rounds=*/1000);
  job.mutable_training()->mutable_local_steps()->mutable_optimizer()->set_type(
      v1::OptimizerSpec::SGD);
  job.mutable_training()->mutable_local_steps()->mutable_optimizer()->set_learning_rate(1e8);
  const ClusterResult result = RunJob(job);
  EXPECT_THAT(result.outcome.status.message(), HasSubstr("holds a NaN or an infinity"));
  EXPECT_THAT(result.outcome.status.message(), HasSubstr("Try a smaller --local_learning_rate"));
}

}  // namespace
}  // namespace capstan
