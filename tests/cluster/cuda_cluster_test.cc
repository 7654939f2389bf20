// Jobs with CUDA workers, from registration to evaluation.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/real_clock.h"
#include "tests/cluster/bsp_bits.h"
#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/local_cluster.h"
#include "tests/cluster/wrapped_engine.h"
#include "worker/engine/cuda_engine.h"
#include "worker/engine/engine.h"

namespace capstan {
namespace {

absl::StatusOr<std::unique_ptr<Engine>> MakeCuda(const EngineOptions& options) {
  return MakeCudaEngine(/*device_number=*/0, options);
}

// Copies the parameters of another engine at its evaluation. All pointers outlive it.
class EvaluatedEngine : public WrappedEngine {
 public:
  EvaluatedEngine(std::unique_ptr<Engine> engine, std::vector<float>* values)
      : WrappedEngine(std::move(engine)), values_(values) {}

  absl::Status RunForward(ParameterStore& store) override {
    values_->clear();
    for (const absl::Span<const float> table : store.values()) {
      values_->insert(values_->end(), table.begin(), table.end());
    }
    return WrappedEngine::RunForward(store);
  }

 private:
  std::vector<float>* const values_;
};

// Digits with a network small enough for an emulated GPU.
v1::JobSpec SmallDigitsJob(uint32_t epochs) {
  v1::JobSpec job = DigitsJob(epochs);
  job.mutable_model()->add_hidden(32);
  return job;
}

v1::ReportResultRequest RunJob(const v1::JobSpec& job, const EngineFactory& make_engine) {
  RealClock clock;
  InProcessClusterTransport transport;
  const ClusterResult result = RunCluster(job, transport, clock, /*faults=*/{}, make_engine);
  EXPECT_TRUE(result.outcome.status.ok()) << result.outcome.status;
  for (const absl::Status& status : result.workers) EXPECT_TRUE(status.ok()) << status;
  return result.outcome.result;
}

struct Trained {
  v1::ReportResultRequest result;
  std::vector<float> values;
};

// The final parameters of the last worker to evaluate. Under BSP all workers have the same.
Trained Train(const v1::JobSpec& job, const EngineFactory& make_engine) {
  std::vector<std::vector<float>> values(job.cluster().num_workers());
  std::atomic<size_t> made = 0;
  Trained trained;
  trained.result =
      RunJob(job, [&](const EngineOptions& options) -> absl::StatusOr<std::unique_ptr<Engine>> {
        absl::StatusOr<std::unique_ptr<Engine>> engine = make_engine(options);
        if (!engine.ok()) return engine;
        return std::make_unique<EvaluatedEngine>(*std::move(engine), &values[made++]);
      });
  for (const std::vector<float>& of_worker : values) {
    if (!of_worker.empty()) trained.values = of_worker;
  }
  return trained;
}

double Norm(const std::vector<float>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// The distance of the parameters, as a share of their norm.
double Difference(const Trained& cuda, const Trained& cpu) {
  EXPECT_EQ(cuda.values.size(), cpu.values.size());
  std::vector<float> differences = cuda.values;
  for (size_t i = 0; i < cpu.values.size(); ++i) differences[i] -= cpu.values[i];
  return Norm(differences) / Norm(cpu.values);
}

TEST(CudaClusterTest, ParametersAreThoseOfTheCpuButForTheOrderOfSums) {
  const v1::JobSpec job = DigitsJob(/*epochs=*/2);
  const Trained cpu = Train(job, MakeCpuEngine);
  const Trained cuda = Train(job, MakeCuda);
  EXPECT_LE(Difference(cuda, cpu), 1e-6);
  EXPECT_NEAR(cuda.result.test_loss(), cpu.result.test_loss(), 1e-6 * cpu.result.test_loss());
  EXPECT_EQ(cuda.result.test_accuracy(), cpu.result.test_accuracy());
}

// Within this number of steps, the sum before some ReLU comes so near to 0 that its sign depends on
// the order of addition, even between two kernels of OpenBLAS. The parameters then differ by more.
TEST(CudaClusterTest, DigitsTrainAsOnTheCpu) {
  const v1::JobSpec job = DigitsJob(/*epochs=*/12);
  const Trained cpu = Train(job, MakeCpuEngine);
  const Trained cuda = Train(job, MakeCuda);
  EXPECT_GE(cuda.result.test_accuracy(), 0.95);
  EXPECT_NEAR(cuda.result.test_accuracy(), cpu.result.test_accuracy(), 0.01);
  EXPECT_NEAR(cuda.result.test_loss(), cpu.result.test_loss(), 0.05 * cpu.result.test_loss());
  EXPECT_LE(Difference(cuda, cpu), 0.02);
}

TEST(CudaClusterTest, BspHasTheSameBitsWhateverTheServersAndFromRunToRun) {
  const uint64_t first = RunJob(SmallDigitsJob(/*epochs=*/2), MakeCuda).parameters_xxh3();
  for (const uint32_t num_servers : {1, 2, 3}) {
    v1::JobSpec job = SmallDigitsJob(/*epochs=*/2);
    job.mutable_cluster()->set_num_servers(num_servers);
    job.mutable_scheduler()->set_slice_bytes(1 << 10);
    EXPECT_EQ(RunJob(job, MakeCuda).parameters_xxh3(), first) << num_servers << " servers";
  }
}

void ExpectToTrain(v1::ConsistencySpec::Mode mode, v1::ModelSpec::Precision precision) {
  v1::JobSpec job = SmallDigitsJob(/*epochs=*/8);
  job.mutable_consistency()->set_mode(mode);
  if (mode == v1::ConsistencySpec::SSP) job.mutable_consistency()->set_staleness(2);
  job.mutable_model()->set_precision(precision);
  EXPECT_GE(RunJob(job, MakeCuda).test_accuracy(), 0.9);
}

TEST(CudaClusterTest, SspInTf32Trains) {
  ExpectToTrain(v1::ConsistencySpec::SSP, v1::ModelSpec::TF32);
}

TEST(CudaClusterTest, AsyncInBfloat16Trains) {
  ExpectToTrain(v1::ConsistencySpec::ASYNC, v1::ModelSpec::BFLOAT16);
}

TEST(CudaClusterTest, ADifferentDeviceForEachWorkerWorks) {
  int made = 0;
  Mutex mutex;
  const EngineFactory alternate = [&](const EngineOptions& options) {
    MutexLock lock(&mutex);
    return made++ % 2 == 0 ? MakeCuda(options) : MakeCpuEngine(options);
  };
  EXPECT_GE(RunJob(SmallDigitsJob(/*epochs=*/8), alternate).test_accuracy(), 0.9);
  EXPECT_EQ(made, 2);
}

}  // namespace
}  // namespace capstan
