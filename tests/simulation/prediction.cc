#include "tests/simulation/prediction.h"

#include <glog/logging.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/simulation/simulated_cluster.h"

namespace capstan {

Scenario ScenarioOf(const Workload& workload, const SimulatedNetwork::Options& network) {
  Scenario scenario;
  scenario.seed = 1;
  v1::JobSpec& job = scenario.job;
  job.mutable_cluster()->set_num_workers(workload.workers);
  job.mutable_cluster()->set_num_servers(workload.servers);
  job.mutable_cluster()->set_shard_count(std::max(64u, workload.servers));
  job.mutable_consistency()->set_mode(workload.mode);
  job.mutable_consistency()->set_staleness(workload.staleness);
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  job.mutable_scheduler()->set_slice_bytes(workload.slice_bytes);
  job.mutable_scheduler()->set_policy(workload.policy);
  job.mutable_scheduler()->set_credit_bytes(workload.credit_bytes);
  job.mutable_membership()->set_lease_seconds(600);
  job.mutable_membership()->set_heartbeat_seconds(60);
  for (uint32_t layer = 0; layer < workload.layers; ++layer) {
    v1::TableSpec& table = scenario.tables.emplace_back();
    table.set_name(absl::StrCat("layer", layer));
    table.add_shape(workload.slices * (workload.slice_bytes / sizeof(float)));
    table.set_layer(layer);
  }
  scenario.steps = workload.steps;
  scenario.has_test_values = false;
  scenario.is_recorded = false;
  scenario.network = network;
  scenario.compute_time = [draw = workload.compute_time, slowness = workload.slowness](
                              uint32_t worker, Random& random) {
    return draw(random) * (worker == 0 ? slowness : 1);
  };
  scenario.limit = absl::Hours(24);
  return scenario;
}

Prediction Predict(const Workload& workload, const SimulatedNetwork::Options& network) {
  const Scenario scenario = ScenarioOf(workload, network);
  const SimulationResult result = SimulatedCluster(scenario).Run();
  CHECK(result.outcome.has_value() && result.outcome->status.ok())
      << "a job without faults has failed: " << result.outcome->status;
  Prediction prediction;
  prediction.step_time = result.outcome->training_time / workload.steps;
  prediction.messages = result.messages;
  for (const v1::Progress& progress : result.outcome->last_status.progress()) {
    prediction.mean_staleness += progress.mean_staleness_seen() / workload.workers;
    prediction.max_staleness = std::max(prediction.max_staleness, progress.max_staleness_seen());
  }
  return prediction;
}

SimulatedNetwork::Options FitNetwork(absl::Duration alone, absl::Duration each,
                                     absl::Duration large, uint64_t large_bytes) {
  SimulatedNetwork::Options network;
  network.per_message = each;
  network.latency = std::max(absl::ZeroDuration(), 0.5 * alone - each);
  network.seconds_per_byte = absl::ToDoubleSeconds(std::max(absl::ZeroDuration(), large - alone)) /
                             (2.0 * static_cast<double>(large_bytes));
  return network;
}

}  // namespace capstan
