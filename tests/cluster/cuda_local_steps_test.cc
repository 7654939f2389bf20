// Jobs with local steps on GPUs.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "tests/cluster/local_steps_jobs.h"
#include "worker/engine/cuda_trainer.h"
#include "worker/engine/local_steps_engine.h"

namespace capstan {
namespace {

absl::StatusOr<std::unique_ptr<Engine>> MakeCuda(const EngineOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<LocalTrainer> trainer,
                   CudaTrainer::Create(/*device_number=*/0, options));
  return LocalStepsEngine::Create(std::move(trainer), options);
}

TEST(CudaLocalStepsTest, AJobHasTheValuesOfPlainLoops) {
  for (const auto type : {v1::OptimizerSpec::SGD, v1::OptimizerSpec::ADAMW}) {
    for (const auto& [fragments, delay] : {std::pair(1u, 0u), {1u, 3u}, {2u, 1u}}) {
      v1::JobSpec job = RoundsJob(/*local_steps=*/4, /*rounds=*/4);
      job.mutable_model()->add_hidden(24);
      v1::LocalStepsSpec& local_steps = *job.mutable_training()->mutable_local_steps();
      local_steps.set_fragments(fragments);
      local_steps.set_fragment_sync_delay(delay);
      local_steps.mutable_optimizer()->set_type(type);
      local_steps.mutable_optimizer()->set_learning_rate(0.02);
      local_steps.mutable_optimizer()->set_epsilon(1e-3);
      EXPECT_LT(DistanceFromReference(job, MakeCuda), 2e-4)
          << v1::OptimizerSpec::Type_Name(type) << ", " << fragments << " fragments, delay "
          << delay;
    }
  }
}

TEST(CudaLocalStepsTest, ARestoredJobHasTheBitsOfAnUndisturbedOne) {
  for (const auto type : {v1::OptimizerSpec::SGD, v1::OptimizerSpec::ADAMW}) {
    v1::JobSpec job = RoundsJob(/*local_steps=*/3, /*rounds=*/9);
    job.mutable_scheduler()->set_slice_bytes(4 << 10);
    v1::LocalOptimizerSpec& optimizer =
        *job.mutable_training()->mutable_local_steps()->mutable_optimizer();
    optimizer.set_type(type);
    optimizer.set_learning_rate(0.01);
    const auto [undisturbed, restored] = HashesOfOneAndTwoLives(job, MakeCuda);
    EXPECT_EQ(undisturbed, restored) << v1::OptimizerSpec::Type_Name(type);
  }
}

}  // namespace
}  // namespace capstan
