#include "tests/cluster/codec_training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/real_clock.h"
#include "common/codec/codec.h"
#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/local_cluster.h"

namespace capstan {
namespace {

constexpr uint32_t kBspSteps = 120;
// On a busy machine the values are older that a worker learns from, and it needs more steps.
constexpr uint32_t kStaleSteps = 200;
constexpr uint64_t kSliceElements = 4096;
// The weights and biases of the MLP 64-128-64-10.
constexpr uint64_t kTables[] = {64 * 128, 128, 128 * 64, 64, 64 * 10, 10};
// The codecs leave the biases as they are.
constexpr uint64_t kMinElements = 256;
constexpr double kLeastAccuracy = 0.8;

struct CodecCase {
  std::string push, pull;
};

v1::JobSpec JobOf(const CodecCase& codecs, v1::ConsistencySpec::Mode mode, uint32_t num_servers) {
  v1::JobSpec job = DigitsJob(/*epochs=*/1);
  job.mutable_training()->set_steps(mode == v1::ConsistencySpec::BSP ? kBspSteps : kStaleSteps);
  job.mutable_consistency()->set_mode(mode);
  if (mode == v1::ConsistencySpec::SSP) job.mutable_consistency()->set_staleness(2);
  job.mutable_cluster()->set_num_servers(num_servers);
  job.mutable_scheduler()->set_slice_bytes(kSliceElements * sizeof(float));
  job.mutable_codec()->set_push(codecs.push);
  job.mutable_codec()->set_pull(codecs.pull);
  job.mutable_codec()->set_min_bytes(kMinElements * sizeof(float));
  return job;
}

// The bytes that one worker pushes in a job.
uint64_t ExpectedBytesPushed(const v1::JobSpec& job) {
  const std::string& codec = job.codec().push();
  uint64_t bytes = 0;
  for (const uint64_t elements : kTables) {
    const auto of_table = MakeCodec(elements < kMinElements ? "float32" : codec).value();
    for (uint64_t begin = 0; begin < elements; begin += kSliceElements) {
      bytes += of_table->EncodedBytes(std::min(kSliceElements, elements - begin));
    }
  }
  return job.training().steps() * bytes;
}

// Returns parameters_xxh3.
uint64_t Train(const v1::JobSpec& job, const TransportFactory& make_transport, bool has_faults) {
  const std::string name =
      absl::StrCat(v1::ConsistencySpec::Mode_Name(job.consistency().mode()), ", pushes as ",
                   job.codec().push(), ", pulls as ", job.codec().pull(), ", ",
                   job.cluster().num_servers(), " servers", has_faults ? ", faults" : "");
  ClusterFaults faults;
  if (has_faults) faults.drop = faults.duplicate = 0.05;
  RealClock clock;
  const auto transport = make_transport(&clock);
  const ClusterResult result = RunCluster(job, *transport, clock, faults);
  EXPECT_TRUE(result.outcome.status.ok()) << name << ": " << result.outcome.status;
  for (const absl::Status& status : result.workers) EXPECT_TRUE(status.ok()) << name << status;
  if (has_faults) {
    EXPECT_GT(result.faults_injected, 50) << name;
  }
  EXPECT_GE(result.outcome.result.test_accuracy(), kLeastAccuracy) << name;
  EXPECT_EQ(result.outcome.last_status.progress_size(), 2) << name;
  for (const v1::Progress& worker : result.outcome.last_status.progress()) {
    EXPECT_EQ(worker.bytes_pushed(), ExpectedBytesPushed(job)) << name;
  }
  return result.outcome.result.parameters_xxh3();
}

void ExpectSameBspBits(const CodecCase& codecs, const TransportFactory& make_transport) {
  const auto in_process = [](Clock*) { return std::make_unique<InProcessClusterTransport>(); };
  const uint64_t bits =
      Train(JobOf(codecs, v1::ConsistencySpec::BSP, 1), in_process, /*has_faults=*/false);
  for (const uint32_t num_servers : {1, 2, 3}) {
    EXPECT_EQ(Train(JobOf(codecs, v1::ConsistencySpec::BSP, num_servers), make_transport,
                    /*has_faults=*/num_servers != 2),
              bits)
        << codecs.push << ", " << num_servers << " servers";
  }
}

}  // namespace

void ExpectCodecsTrainUnderFaults(const TransportFactory& make_transport) {
  // Side by side: most of the time they wait to send dropped exchanges again.
  std::vector<std::thread> threads;
  for (const CodecCase& codecs :
       {CodecCase{"int8", "topk:0.1:int8"}, CodecCase{"bfloat16", "int8"},
        CodecCase{"topk:0.05", "topk:0.05"}, CodecCase{"topk:20:int8", "bfloat16"}}) {
    threads.emplace_back([codecs, &make_transport] { ExpectSameBspBits(codecs, make_transport); });
    for (const auto mode : {v1::ConsistencySpec::SSP, v1::ConsistencySpec::ASYNC}) {
      threads.emplace_back([job = JobOf(codecs, mode, /*num_servers=*/2), &make_transport] {
        Train(job, make_transport, /*has_faults=*/true);
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace capstan
