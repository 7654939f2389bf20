#include "tests/cluster/local_steps_jobs.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/real_clock.h"
#include "common/job/job_properties.h"
#include "common/model_file/model_file.h"
#include "tests/cluster/bsp_bits.h"
#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/local_steps_reference.h"

namespace capstan {

ClusterResult RunRounds(const v1::JobSpec& job, const EngineFactory& make_engine) {
  RealClock clock;
  InProcessClusterTransport transport;
  return RunCluster(job, transport, clock, /*faults=*/{}, make_engine);
}

JobOutcome RunRoundsToTheEnd(const v1::JobSpec& job, const EngineFactory& make_engine) {
  const ClusterResult result = RunRounds(job, make_engine);
  for (const absl::Status& status : result.workers) EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(result.outcome.status.ok()) << result.outcome.status;
  return result.outcome;
}

v1::JobSpec RoundsJob(uint32_t local_steps, uint64_t rounds) {
  v1::JobSpec job = DigitsJob(/*epochs=*/1);
  job.mutable_training()->set_steps(rounds);
  job.mutable_training()->mutable_local_steps()->set_sync_every(local_steps);
  FillOuterOptimizer(&job);
  return job;
}

std::string NewFolderOfRounds() {
  std::string folder = testing::TempDir() + "/local-XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return folder;
}

double DistanceFromReference(v1::JobSpec job, const EngineFactory& make_engine) {
  job.set_output(NewFolderOfRounds() + "/model.safetensors");
  RunRoundsToTheEnd(job, make_engine);
  const auto model = ModelTables::Open(job.output()).value();
  const std::vector<std::vector<double>> expected = TrainWithLocalSteps(job);
  const char* const names[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
  EXPECT_EQ(expected.size(), 4u);
  double largest = 0;
  for (size_t table = 0; table < expected.size(); ++table) {
    std::vector<float> values(expected[table].size());
    EXPECT_TRUE(model->ReadValues(names[table], /*offset=*/0, absl::MakeSpan(values)).ok());
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(values[i] - expected[table][i]));
    }
  }
  return largest;
}

std::pair<uint64_t, uint64_t> HashesOfOneAndTwoLives(v1::JobSpec job,
                                                     const EngineFactory& make_engine) {
  job.mutable_training()->set_steps(9);
  const uint64_t undisturbed = RunRoundsToTheEnd(job, make_engine).result.parameters_xxh3();
  job.mutable_training()->set_steps(6);
  job.mutable_checkpoint()->set_dir(NewFolderOfRounds());
  job.mutable_checkpoint()->set_steps(2);
  job.mutable_checkpoint()->set_keep(9);
  RunRoundsToTheEnd(job, make_engine);
  // One that comes due while another is still being written is left out.
  job.mutable_checkpoint()->set_restore(FirstCheckpoint(job.checkpoint().dir()));
  job.mutable_training()->set_steps(9);
  return {undisturbed, RunRoundsToTheEnd(job, make_engine).result.parameters_xxh3()};
}

}  // namespace capstan
