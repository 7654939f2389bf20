// Jobs whose workers compute with CUDA, from registration to evaluation.
#include <gtest/gtest.h>

#include <cstdint>

#include "common/base/real_clock.h"
#include "tests/cluster/bsp_bits.h"
#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/local_cluster.h"
#include "worker/engine/make_cuda_engine.h"

namespace capstan {
namespace {

absl::StatusOr<std::unique_ptr<Engine>> MakeCuda(const EngineOptions& options) {
  return MakeCudaEngine(/*device_number=*/0, options);
}

v1::ReportResultRequest RunJob(const v1::JobSpec& job, const EngineFactory& make_engine) {
  RealClock clock;
  InProcessClusterTransport transport;
  const ClusterResult result = RunCluster(job, transport, clock, /*faults=*/{}, make_engine);
  EXPECT_TRUE(result.outcome.status.ok()) << result.outcome.status;
  for (const absl::Status& status : result.workers) EXPECT_TRUE(status.ok()) << status;
  return result.outcome.result;
}

TEST(CudaClusterTest, DigitsTrainAsOnTheCpu) {
  const v1::JobSpec job = DigitsJob(/*epochs=*/20);
  const auto cpu = RunJob(job, MakeCpuEngine);
  const auto cuda = RunJob(job, MakeCuda);
  EXPECT_GE(cuda.test_accuracy(), 0.95);
  EXPECT_NEAR(cuda.test_accuracy(), cpu.test_accuracy(), 0.01);
  EXPECT_NEAR(cuda.test_loss(), cpu.test_loss(), 0.05 * cpu.test_loss());
}

TEST(CudaClusterTest, BspHasTheSameBitsWhateverTheServersAndFromRunToRun) {
  const uint64_t first = RunJob(DigitsJob(/*epochs=*/2), MakeCuda).parameters_xxh3();
  for (const uint32_t num_servers : {1, 2, 3}) {
    v1::JobSpec job = DigitsJob(/*epochs=*/2);
    job.mutable_cluster()->set_num_servers(num_servers);
    job.mutable_scheduler()->set_slice_bytes(4 << 10);
    EXPECT_EQ(RunJob(job, MakeCuda).parameters_xxh3(), first) << num_servers << " servers";
  }
}

TEST(CudaClusterTest, EveryConsistencyAndPrecisionTrains) {
  for (const auto mode : {v1::ConsistencySpec::SSP, v1::ConsistencySpec::ASYNC}) {
    for (const auto precision : {v1::ModelSpec::TF32, v1::ModelSpec::BFLOAT16}) {
      v1::JobSpec job = DigitsJob(/*epochs=*/10);
      job.mutable_consistency()->set_mode(mode);
      if (mode == v1::ConsistencySpec::SSP) job.mutable_consistency()->set_staleness(2);
      job.mutable_model()->set_precision(precision);
      EXPECT_GE(RunJob(job, MakeCuda).test_accuracy(), 0.9)
          << v1::ConsistencySpec::Mode_Name(mode) << " in "
          << v1::ModelSpec::Precision_Name(precision);
    }
  }
}

TEST(CudaClusterTest, ADifferentDeviceForEachWorkerWorks) {
  int made = 0;
  Mutex mutex;
  const EngineFactory alternate = [&](const EngineOptions& options) {
    MutexLock lock(&mutex);
    return made++ % 2 == 0 ? MakeCuda(options) : MakeCpuEngine(options);
  };
  EXPECT_GE(RunJob(DigitsJob(/*epochs=*/20), alternate).test_accuracy(), 0.95);
  EXPECT_EQ(made, 2);
}

}  // namespace
}  // namespace capstan
