#include "tests/cluster/bsp_bits.h"

#include <gtest/gtest.h>

#include "common/base/real_clock.h"
#include "kernels/gemm.h"
#include "tests/cluster/serial_training.h"

namespace capstan {

v1::JobSpec DigitsJob(uint32_t epochs) {
  UseOneBlasThread();
  v1::JobSpec job;
  job.mutable_training()->set_epochs(epochs);
  job.mutable_membership()->set_heartbeat_seconds(0.05);
  return job;
}

uint64_t RunAndHash(const v1::JobSpec& job, ClusterTransport& transport, Clock& clock,
                    const ClusterFaults& faults) {
  const ClusterResult result = RunCluster(job, transport, clock, faults);
  EXPECT_TRUE(result.outcome.status.ok()) << result.outcome.status;
  for (const absl::Status& status : result.servers) EXPECT_TRUE(status.ok()) << status;
  for (const absl::Status& status : result.workers) EXPECT_TRUE(status.ok()) << status;
  if (faults.drop > 0) {
    EXPECT_GT(result.faults_injected, 100);
  }
  return result.outcome.result.parameters_xxh3();
}

void ExpectSameBitsWhateverTheLayout(const TransportFactory& make_transport) {
  RealClock clock;
  const uint64_t serial = TrainSerially(DigitsJob(/*epochs=*/2)).parameters_xxh3;
  for (const uint32_t num_servers : {1, 2, 3}) {
    for (const uint32_t shard_count : {8, 64}) {
      for (const uint64_t slice_bytes : {4 << 10, 1 << 20}) {
        v1::JobSpec job = DigitsJob(/*epochs=*/2);
        job.mutable_cluster()->set_num_servers(num_servers);
        job.mutable_cluster()->set_shard_count(shard_count);
        job.mutable_scheduler()->set_slice_bytes(slice_bytes);
        EXPECT_EQ(RunAndHash(job, *make_transport(&clock), clock), serial)
            << num_servers << " servers, " << shard_count << " shards, slices of " << slice_bytes;
      }
    }
  }
  for (const uint64_t partition_bytes : {8 << 10, 1 << 20}) {
    v1::JobSpec job = DigitsJob(/*epochs=*/2);
    job.mutable_scheduler()->set_slice_bytes(4 << 10);
    job.mutable_scheduler()->set_partition_bytes(partition_bytes);
    EXPECT_EQ(RunAndHash(job, *make_transport(&clock), clock), serial)
        << "partitions of " << partition_bytes;
  }
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(RunAndHash(DigitsJob(/*epochs=*/2), *make_transport(&clock), clock), serial);
  }
}

void ExpectSameBitsUnderFaults(const TransportFactory& make_transport) {
  RealClock clock;
  v1::JobSpec job = DigitsJob(/*epochs=*/2);
  job.mutable_scheduler()->set_slice_bytes(4 << 10);
  ClusterFaults faults;
  faults.drop = 0.05;
  faults.duplicate = 0.05;
  faults.delay = 0.20;
  EXPECT_EQ(RunAndHash(job, *make_transport(&clock), clock, faults),
            TrainSerially(job).parameters_xxh3);
}

void ExpectSameBitsWithMeasuredLinks(const TransportFactory& make_transport) {
  RealClock clock;
  v1::JobSpec job = DigitsJob(/*epochs=*/1);
  job.clear_training();
  job.mutable_training()->set_steps(10);
  job.mutable_training()->set_batch_size(4);
  for (int layer = 0; layer < 2; ++layer) job.mutable_model()->add_hidden(1600);
  job.mutable_checkpoint()->set_dir(testing::TempDir() + "/measured_links");
  job.mutable_checkpoint()->set_steps(8);
  const ClusterResult result = RunCluster(job, *make_transport(&clock), clock);
  EXPECT_TRUE(result.outcome.status.ok()) << result.outcome.status;
  const v1::LinkReport& links = result.outcome.last_status.links();
  EXPECT_GT(links.slowest().bytes_per_second(), 0);
  EXPECT_GT(links.slowest().round_trip_seconds(), 0);
  EXPECT_GE(links.chosen().slice_bytes(), 64u << 10);
  EXPECT_EQ(result.outcome.last_status.view().scheduler().slice_bytes(),
            links.chosen().slice_bytes());
  EXPECT_EQ(result.outcome.result.parameters_xxh3(), TrainSerially(job).parameters_xxh3);

  job.mutable_training()->set_steps(12);
  job.mutable_checkpoint()->set_restore("latest");
  const ClusterResult restored = RunCluster(job, *make_transport(&clock), clock);
  EXPECT_TRUE(restored.outcome.status.ok()) << restored.outcome.status;
  EXPECT_FALSE(restored.outcome.last_status.has_links()) << "it keeps the choice";
  EXPECT_EQ(restored.outcome.last_status.view().scheduler().credit_bytes(),
            links.chosen().credit_bytes());
  EXPECT_EQ(restored.outcome.result.parameters_xxh3(), TrainSerially(job).parameters_xxh3);
}

void ExpectDivergenceIsReported(const TransportFactory& make_transport) {
  RealClock clock;
  v1::JobSpec job = DigitsJob(/*epochs=*/20);
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  job.mutable_optimizer()->set_learning_rate(1e8);
  job.mutable_scheduler()->set_slice_bytes(1 << 10);
  job.mutable_scheduler()->set_credit_bytes(1);
  for (int run = 0; run < 5; ++run) {
    const ClusterResult result = RunCluster(job, *make_transport(&clock), clock);
    const std::string reason(result.outcome.status.message());
    EXPECT_NE(reason.find("holds a NaN or an infinity"), reason.npos) << reason;
    EXPECT_NE(reason.find("Try a smaller --learning_rate, and look at the data"), reason.npos)
        << result.outcome.status;
    for (const absl::Status& status : result.servers) EXPECT_TRUE(absl::IsAborted(status));
    for (const absl::Status& status : result.workers) EXPECT_FALSE(status.ok());
  }
}

}  // namespace capstan
