// Workers whose steps a program computes, through the engine behind the C interface. The program
// here computes what a built-in worker computes, so the results must be the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "kernels/cpu/cpu_stream.h"
#include "tests/cluster/bsp_bits.h"
#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/local_cluster.h"
#include "tests/cluster/serial_training.h"
#include "worker/models/training/evaluate.h"
#include "worker/models/training/gathered_batch.h"
#include "worker/models/training/make_model.h"
#include "worker/models/training/model_on_cpu.h"
#include "worker/program/program_engine.h"

namespace capstan {
namespace {

constexpr absl::Duration kForever = absl::InfiniteDuration();

// One rank's program: its data and its model.
struct Program {
  uint32_t rank = 0;
  int64_t steps = 0;  // that it does
  DataSplit data;
  std::optional<BatchSampler> sampler;
  std::unique_ptr<ModelOnCpu> model;
  std::shared_ptr<ProgramEngine> engine;
  GatheredBatch gathered;
};

absl::Status TrainStep(Program& program, Step step) {
  ProgramEngine& engine = *program.engine;
  program.gathered.Gather(program.data.train,
                          program.sampler->Indices(WorkerId(program.rank), step));
  const Batch batch = program.gathered.batch();
  ASSIGN_OR_RETURN(const BatchResult result,
                   program.model->Forward(batch, engine.values(), [&engine](int layer) {
                     return engine.Wait(layer, kForever);
                   }));
  RETURN_IF_ERROR(
      program.model->Backward(batch, engine.values(), engine.gradients(),
                              [&engine](int layer) { return engine.Push(layer, kForever); }));
  const auto samples = static_cast<double>(batch.labels.size());
  return engine.EndStep(result.loss_sum / samples, batch.labels.size(), kForever);
}

absl::Status ReportAccuracy(Program& program) {
  ASSIGN_OR_RETURN(const Evaluation evaluation,
                   Evaluate(program.data.test.size(), [&](absl::Span<const uint32_t> samples) {
                     program.gathered.Gather(program.data.test, samples);
                     return program.model->Forward(program.gathered.batch(),
                                                   program.engine->values(),
                                                   [](int /*layer*/) { return absl::OkStatus(); });
                   }));
  v1::ReportResultRequest result;
  result.set_test_accuracy(evaluation.accuracy);
  result.set_test_loss(evaluation.loss);
  result.set_test_samples(program.data.test.size());
  return program.engine->steps().Report(result, kForever);
}

absl::Status Train(Program& program) {
  ProgramEngine& engine = *program.engine;
  RETURN_IF_ERROR(engine.steps().AwaitStart(kForever));
  while (engine.steps().current() < Step(program.steps)) {
    RETURN_IF_ERROR(TrainStep(program, engine.steps().current()));
  }
  RETURN_IF_ERROR(engine.steps().End());
  ASSIGN_OR_RETURN(const bool evaluates, engine.steps().AwaitEvaluation(kForever));
  return evaluates ? ReportAccuracy(program) : absl::OkStatus();
}

// How the programs of a job differ from built-in workers.
struct ProgramOptions {
  bool announces_steps = true;
  std::vector<int64_t> steps_of_rank;  // empty: all do the job's
};

class ProgramClusterTest : public testing::Test {
 protected:
  ClusterResult Run(const v1::JobSpec& job, const ProgramOptions& options = {},
                    const ClusterFaults& faults = {}) {
    v1::JobSpec of_programs = job;
    of_programs.mutable_model()->set_type(v1::ModelSpec::PROGRAM);
    programs_ = std::vector<std::thread>(job.cluster().num_workers());
    results_ = std::vector<absl::Status>(job.cluster().num_workers());
    ClusterResult result = RunRankedCluster(
        of_programs, transport_, clock_, faults, [&](uint32_t rank) -> JobPreparer {
          return [this, job, rank, options](const v1::JobSpec&, Clock* clock) {
            return Prepare(job, clock, rank, options);
          };
        });
    for (size_t i = 0; i < programs_.size(); ++i) {
      engines_[i]->steps().SetOutcome(result.workers[i]);
      programs_[i].join();
    }
    return result;
  }

  absl::StatusOr<JobSetup> Prepare(const v1::JobSpec& job, Clock* clock, uint32_t rank,
                                   const ProgramOptions& options) {
    ASSIGN_OR_RETURN(JobSetup setup, PrepareJob(job, MakeCpuEngine, clock));
    auto program = std::make_unique<Program>();
    program->rank = rank;
    program->steps = options.steps_of_rank.empty() ? setup.steps : options.steps_of_rank[rank];
    program->data = setup.data;
    program->sampler = *setup.sampler;
    const int64_t samples = std::max<int64_t>(job.training().batch_size(), kEvaluationBatch);
    ASSIGN_OR_RETURN(auto model, MakeModel<CpuStream>(job.model(), setup.data.train.feature_count,
                                                      setup.data.train.class_count));
    ASSIGN_OR_RETURN(program->model, ModelOnCpu::Create(std::move(model), samples));
    ProgramEngine::Options engine;
    engine.clock = clock;
    engine.tables = setup.engine->tables();
    engine.initial.resize(engine.tables.size());
    engine.steps = options.announces_steps ? setup.steps : 0;
    program->engine = std::make_shared<ProgramEngine>(engine);
    setup = JobSetup();
    setup.engine = program->engine;
    setup.steps = engine.steps;
    setup.evaluate = [engine = program->engine](Step steps, ParameterStore& store,
                                                v1::ReportResultRequest& result) {
      return engine->Evaluate(steps, store, result);
    };
    engines_[rank] = program->engine;
    programs_[rank] = std::thread(
        [this, rank, program = std::move(program)] { results_[rank] = Train(*program); });
    return setup;
  }

  RealClock clock_;
  InProcessClusterTransport transport_;
  std::vector<std::thread> programs_;  // by rank
  std::vector<absl::Status> results_;
  std::shared_ptr<ProgramEngine> engines_[8];
};

TEST_F(ProgramClusterTest, AProgramThatComputesTheSameGetsTheSameBits) {
  for (const bool announces_steps : {true, false}) {
    for (const uint32_t workers : {1, 2, 5}) {
      v1::JobSpec job = DigitsJob(/*epochs=*/2);
      job.mutable_cluster()->set_num_workers(workers);
      ProgramOptions options;
      options.announces_steps = announces_steps;
      const ClusterResult result = Run(job, options);
      ASSERT_TRUE(result.outcome.status.ok()) << result.outcome.status;
      const SerialResult serial = TrainSerially(job);
      EXPECT_EQ(result.outcome.result.parameters_xxh3(), serial.parameters_xxh3) << workers;
      EXPECT_DOUBLE_EQ(result.outcome.result.test_accuracy(), serial.test_accuracy);
      for (const absl::Status& status : results_) EXPECT_TRUE(status.ok()) << status;
    }
  }
}

TEST_F(ProgramClusterTest, LostAndDoubledMessagesChangeNothing) {
  v1::JobSpec job = DigitsJob(/*epochs=*/2);
  job.mutable_scheduler()->set_slice_bytes(4 << 10);
  ClusterFaults faults;
  faults.drop = 0.05;
  faults.duplicate = 0.05;
  const ClusterResult result = Run(job, {}, faults);
  EXPECT_GT(result.faults_injected, 100);
  EXPECT_EQ(result.outcome.result.parameters_xxh3(), TrainSerially(job).parameters_xxh3);
}

TEST_F(ProgramClusterTest, EveryModeAndLossyCodecsTrain) {
  v1::JobSpec job = DigitsJob(/*epochs=*/20);
  job.mutable_cluster()->set_num_workers(4);
  job.mutable_codec()->set_push("topk:0.1");
  job.mutable_codec()->set_pull("int8");
  job.mutable_codec()->set_min_bytes(0);
  using Consistency = v1::ConsistencySpec;
  for (const auto mode : {Consistency::BSP, Consistency::SSP, Consistency::ASYNC}) {
    job.mutable_consistency()->set_mode(mode);
    job.mutable_consistency()->set_staleness(mode == Consistency::SSP ? 2 : 0);
    const ClusterResult result = Run(job);
    ASSERT_TRUE(result.outcome.status.ok()) << result.outcome.status;
    EXPECT_GT(result.outcome.result.test_accuracy(), 0.9) << Consistency::Mode_Name(mode);
  }
}

TEST_F(ProgramClusterTest, AWorkerWithMoreStepsThanTheOthersEndsTheJobWithAReason) {
  ProgramOptions options;
  options.announces_steps = false;
  options.steps_of_rank = {10, 12};
  const ClusterResult result = Run(DigitsJob(/*epochs=*/1), options);
  EXPECT_FALSE(result.outcome.status.ok());
  EXPECT_NE(std::string(result.outcome.status.message()).find("the same number"), std::string::npos)
      << result.outcome.status;
  EXPECT_FALSE(results_[1].ok());
}

}  // namespace
}  // namespace capstan
