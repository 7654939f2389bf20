// Workers that begin after the last step, in virtual time.
#include <glog/logging.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/time/time.h"
#include "tests/simulation/run_scenario.h"
#include "tests/simulation/scenario.h"

namespace capstan {
namespace {

constexpr int64_t kSteps = 4;
constexpr absl::Duration kLatency = absl::Milliseconds(20);

// Worker 1 dies in its first step. Worker 0 does its steps in 2.2 s to 2.6 s. Another process
// starts after `comes_at`, and takes the place of worker 1.
Scenario LateWorker(uint64_t seed, absl::Duration comes_at) {
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
  v1::TableSpec& table = scenario.tables.emplace_back();
  table.set_name("table");
  table.add_shape(2 * kSteps);
  scenario.steps = kSteps;
  scenario.network.latency = kLatency;
  scenario.network.max_jitter = kLatency;  // of two messages, the second may arrive first
  scenario.compute_time = [](uint32_t, Random&) { return absl::Milliseconds(500); };
  Fault& death = scenario.faults.emplace_back();
  death.kind = Fault::Kind::kKillWorker;
  death.process = 1;
  death.at = absl::Milliseconds(400);
  death.replaced_after = comes_at - death.at;
  return scenario;
}

// With a state that checkpoints have. The process that comes late is asked to end `asked_after` its
// start.
Scenario AskedToEnd(uint64_t seed, absl::Duration comes_at, absl::Duration asked_after) {
  Scenario scenario = LateWorker(seed, comes_at);
  scenario.job.mutable_checkpoint()->set_dir("disk");
  scenario.job.mutable_checkpoint()->set_steps(100);  // only after the last step
  scenario.own_arrays = 1;
  Fault& request = scenario.faults.emplace_back();
  request.kind = Fault::Kind::kAskWorkerToEnd;
  request.process = 2;
  request.at = comes_at + asked_after;
  return scenario;
}

// A program under BSP whose lost worker had a batch more than the other, which goes on without it.
// Seeds that are even: the workers have announced one step more than they do.
Scenario WithMoreBatches(uint64_t seed, absl::Duration comes_at) {
  Scenario scenario = LateWorker(seed, comes_at);
  const auto workers = static_cast<uint32_t>(2 + seed / 2 % 2);
  scenario.job.mutable_cluster()->set_num_workers(workers);
  scenario.job.mutable_cluster()->set_num_servers(1 + seed / 4 % 2);
  scenario.job.mutable_cluster()->set_shard_count(2);
  scenario.job.mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  scenario.job.mutable_model()->set_type(v1::ModelSpec::PROGRAM);
  scenario.job.mutable_membership()->set_replace_seconds(0);
  scenario.job.mutable_membership()->set_allow_other_bits(true);
  UserProgram& program = scenario.program.emplace();
  program.seed = seed;
  program.ends.assign(workers, kSteps);
  program.ends[1] = kSteps + 1;
  program.reduces = seed / 8 % 2 == 0;
  program.validation = absl::Milliseconds(seed / 16 % 2 * 200);
  scenario.restarts_leavers = true;
  scenario.compute_time = [workers, is_fast = seed / 32 % 2 == 0](uint32_t process, Random&) {
    return absl::Milliseconds(is_fast && process >= workers ? 1 : 500);
  };
  scenario.steps = kSteps + 1;
  scenario.tables.push_back(scenario.tables[0]);
  scenario.tables[1].set_name("other");
  for (v1::TableSpec& table : scenario.tables) table.set_shape(0, workers * scenario.steps);
  scenario.job.mutable_scheduler()->set_slice_bytes(workers * scenario.steps * sizeof(float));
  return scenario;
}

// Fails the test unless the job ends well.
v1::GetStatusReply LastStatus(const Scenario& scenario) {
  FLAGS_minloglevel = google::GLOG_ERROR;
  ScenarioVerdict verdict = RunScenario(scenario);
  EXPECT_EQ(verdict.violation, "");
  EXPECT_TRUE(verdict.is_done);
  return std::move(verdict.last_status);
}

int64_t FirstStepOfLateWorker(const v1::GetStatusReply& status) {
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
      const v1::GetStatusReply status = LastStatus(AskedToEnd(++seed, at, after));
      EXPECT_EQ(status.checkpoint().step(), kSteps) << status.checkpoint().error();
      late += FirstStepOfLateWorker(status) == kSteps;
    }
  }
  EXPECT_GT(late, 0) << "no process came after the last step";
}

TEST(LateWorkerTest, OneThatHasABatchAfterTheOthersLastStepLeaves) {
  const auto entered_late = [](const v1::WorkerInfo& worker) { return worker.entered_late(); };
  int late = 0;
  int in_time = 0;
  for (uint64_t seed = 0; seed < 800; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const absl::Duration at = absl::Milliseconds(2300 + seed);
    const v1::JobView view = LastStatus(WithMoreBatches(seed, at)).view();
    const auto worker = absl::c_find_if(view.workers(), entered_late);
    if (worker == view.workers().end()) continue;
    EXPECT_TRUE(!worker->has_left() || worker->first_step() >= view.steps_total());
    late += worker->has_left();
    in_time += worker->is_live() && worker->first_step() < view.steps_total();
  }
  EXPECT_GT(late, 0);
  EXPECT_GT(in_time, 0);
  std::printf("%d came after the last step, %d in time\n", late, in_time);
}

}  // namespace
}  // namespace capstan
