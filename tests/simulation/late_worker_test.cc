// Workers that begin after the last step, in virtual time.
#include <glog/logging.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "absl/time/time.h"
#include "tests/simulation/run_scenario.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_cluster.h"
#include "tests/simulation/simulated_disk.h"

namespace capstan {
namespace {

constexpr int64_t kSteps = 4;
constexpr absl::Duration kLatency = absl::Milliseconds(20);

// Worker 1 dies in its first step. Worker 0 does its steps in 2.2 s to 2.6 s. Another process
// starts after `comes_at`, and takes the place of worker 1. It is asked to end `asked_after` its
// start.
Scenario LateWorker(uint64_t seed, absl::Duration comes_at, absl::Duration asked_after) {
  Scenario scenario;
  scenario.seed = seed;
  v1::JobSpec& job = scenario.job;
  job.mutable_cluster()->set_num_workers(2);
  job.mutable_cluster()->set_num_servers(1);
  job.mutable_cluster()->set_shard_count(1);
  job.mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  job.mutable_optimizer()->set_learning_rate(1);
  job.mutable_scheduler()->set_slice_bytes(2 * kSteps * sizeof(float));
  job.mutable_membership()->set_lease_seconds(0.5);
  job.mutable_membership()->set_heartbeat_seconds(0.1);
  job.mutable_checkpoint()->set_dir("disk");
  job.mutable_checkpoint()->set_steps(100);  // only after the last step
  v1::TableSpec& table = scenario.tables.emplace_back();
  table.set_name("table");
  table.add_shape(2 * kSteps);
  scenario.steps = kSteps;
  scenario.own_arrays = 1;
  scenario.network.latency = kLatency;
  scenario.network.max_jitter = kLatency;  // of two messages, the second may arrive first
  scenario.compute_time = [](uint32_t, Random&) { return absl::Milliseconds(500); };
  Fault& death = scenario.faults.emplace_back();
  death.kind = Fault::Kind::kKillWorker;
  death.process = 1;
  death.at = absl::Milliseconds(400);
  death.replaced_after = comes_at - death.at;
  Fault& request = scenario.faults.emplace_back();
  request.kind = Fault::Kind::kAskWorkerToEnd;
  request.process = 2;
  request.at = comes_at + asked_after;
  return scenario;
}

// Fails the test unless the job ends well, with a checkpoint of its last step. Returns the first
// step of the process that came late.
int64_t FirstStepOfLateWorker(const Scenario& scenario) {
  FLAGS_minloglevel = google::GLOG_ERROR;
  SimulatedDisk disk(scenario.disk, scenario.seed);
  const SimulationResult result = SimulatedCluster(scenario, &disk).Run();
  EXPECT_EQ(BadEnd(scenario, result), "");
  const v1::GetStatusReply status = result.outcome.value_or(JobOutcome()).last_status;
  EXPECT_EQ(status.checkpoint().step(), kSteps) << status.checkpoint().error();
  return status.view().workers_size() > 1 ? status.view().workers(1).first_step() : 0;
}

TEST(LateWorkerTest, OneThatIsAskedToEndBeforeItBeginsDoesNotKeepTheJobFromItsEnd) {
  constexpr absl::Duration kTick = absl::Milliseconds(10);
  int late = 0;
  uint64_t seed = 0;
  for (absl::Duration at = absl::Seconds(2.3); at < absl::Seconds(2.7); at += kTick) {
    // From its registration until it hears of its first step.
    for (absl::Duration after = 4 * kLatency; after < 9 * kLatency; after += kTick) {
      SCOPED_TRACE(testing::Message() << "comes at " << at << ", is asked after " << after);
      late += FirstStepOfLateWorker(LateWorker(++seed, at, after)) == kSteps;
    }
  }
  EXPECT_GT(late, 0) << "no process came after the last step";
}

}  // namespace
}  // namespace capstan
