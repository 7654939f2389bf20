// Tuning in virtual time: it ends in spite of lost workers, and breaks no promise.
#include <glog/logging.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/history/check/check_history.h"
#include "common/history/history.h"
#include "tests/simulation/run_scenario.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_cluster.h"

namespace capstan {
namespace {

// 3 workers with compute times of about 100 ms, 2 servers, and enough steps for tuning.
Scenario TunedScenario(v1::ConsistencySpec::Mode mode) {
  Scenario scenario;
  scenario.seed = 1;
  v1::JobSpec& job = scenario.job;
  job.mutable_cluster()->set_num_workers(3);
  job.mutable_cluster()->set_num_servers(2);
  job.mutable_consistency()->set_mode(mode);
  if (mode == v1::ConsistencySpec::SSP) job.mutable_consistency()->set_staleness(3);
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  job.mutable_scheduler()->set_tune(true);
  job.mutable_scheduler()->set_slice_bytes(64);
  job.mutable_membership()->set_lease_seconds(0.5);
  job.mutable_membership()->set_heartbeat_seconds(0.1);
  for (uint32_t layer = 0; layer < 2; ++layer) {
    v1::TableSpec& table = scenario.tables.emplace_back();
    table.set_name("table" + std::to_string(layer));
    table.add_shape(8 * 16);
    table.set_layer(layer);
  }
  scenario.steps = 500;
  scenario.has_test_values = false;
  scenario.network.latency = absl::Milliseconds(1);
  scenario.compute_time = [](uint32_t worker, Random& random) {
    return absl::Milliseconds(100) * (1 + 0.1 * random.UniformFloat() + 0.5 * (worker == 0));
  };
  scenario.limit = absl::Seconds(600);
  return scenario;
}

// Runs the job. Fails the test unless it ends well and keeps its promises.
JobOutcome RunJob(const Scenario& scenario) {
  FLAGS_minloglevel = google::GLOG_ERROR;
  const SimulationResult result = SimulatedCluster(scenario).Run();
  EXPECT_EQ(BadEnd(scenario, result), "");
  HistoryAssembler assembler;
  EXPECT_TRUE(assembler.AddFile(result.records).ok());
  EXPECT_EQ(CheckHistory(assembler.Finish().value()).value().violation, "");
  return result.outcome.value_or(JobOutcome());
}

TEST(TunedJobTest, EndsTuningUnderEveryConsistency) {
  for (const auto mode :
       {v1::ConsistencySpec::BSP, v1::ConsistencySpec::SSP, v1::ConsistencySpec::ASYNC}) {
    SCOPED_TRACE(v1::ConsistencySpec::Mode_Name(mode));
    const JobOutcome outcome = RunJob(TunedScenario(mode));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    const v1::TuningReport& tuning = outcome.last_status.tuning();
    EXPECT_TRUE(tuning.has_chosen()) << tuning.ShortDebugString();
    EXPECT_EQ(tuning.tried_size(), 17);
    // 18 periods. Each has 2 steps of warm-up, 12 measured steps, 2 steps until the next period
    // begins, and one more if a worker is ahead.
    EXPECT_LE(outcome.last_status.view().schedule().first_step(), 18 * 17);
  }
}

TEST(TunedJobTest, GoesOnWithoutALostWorkerAndWithTheOneThatTakesItsPlace) {
  for (const auto mode : {v1::ConsistencySpec::BSP, v1::ConsistencySpec::ASYNC}) {
    for (const absl::Duration replaced_after : {absl::ZeroDuration(), absl::Seconds(3)}) {
      SCOPED_TRACE(replaced_after);
      Scenario scenario = TunedScenario(mode);
      Fault& fault = scenario.faults.emplace_back();
      fault.kind = Fault::Kind::kKillWorker;
      fault.process = 1;
      fault.at = absl::Seconds(10);
      fault.replaced_after = replaced_after;
      const JobOutcome outcome = RunJob(scenario);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_EQ(outcome.workers_lost, 1);
      EXPECT_TRUE(outcome.last_status.tuning().has_chosen());
    }
  }
}

TEST(TunedJobTest, TheSameScenarioIsTunedAlike) {
  const JobOutcome first = RunJob(TunedScenario(v1::ConsistencySpec::BSP));
  const JobOutcome second = RunJob(TunedScenario(v1::ConsistencySpec::BSP));
  EXPECT_EQ(first.last_status.tuning().SerializeAsString(),
            second.last_status.tuning().SerializeAsString());
}

}  // namespace
}  // namespace capstan
