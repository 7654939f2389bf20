#include "tests/transport/test_shard_host.h"

#include <utility>

#include "common/exchange/request_parts.h"
#include "common/optimizer/optimizer.h"
#include "proto/job.pb.h"
#include "server/consistency/consistency_schedule.h"
#include "server/consistency/update_scale.h"
#include "worker/client/parameter_client.h"

namespace capstan {

std::unique_ptr<ShardHost> MakeTestHost(ConsistencyMode mode, int num_workers, uint64_t elements,
                                        uint32_t own_arrays, const ShardSnapshot* restored,
                                        bool initial_from_worker, bool replies_mean) {
  ShardHost::Options options;
  options.job = kTestJob;
  options.update_scale = UpdateScale::kSum;  // A pulled value is then the sum of the pushes.
  options.tables = {{"w", elements, 0.0, {}}};
  options.tables[0].initial_from_worker = initial_from_worker;
  options.tables[0].replies_mean = replies_mean;
  options.slice_bytes = elements * sizeof(float);
  options.own_arrays = own_arrays;
  options.shard_count = 1;
  v1::OptimizerSpec sgd;  // with a state
  sgd.set_type(v1::OptimizerSpec::MOMENTUM);
  sgd.set_momentum(0);
  sgd.set_learning_rate(1.0);
  options.optimizer = MakeOptimizer(sgd).value();
  const ConsistencyPeriod period = {Step(0), mode};
  options.schedules = {MakeConsistencySchedule({&period, 1}).value()};
  options.shards = {ShardId(0)};
  options.epoch = Epoch(1);
  ShardHost::Source source;
  if (restored != nullptr) source.restored = [restored](ShardId) { return *restored; };
  std::unique_ptr<ShardHost> host = ShardHost::Create(std::move(options), source).value();
  std::vector<ShardHost::Worker> workers;
  for (int i = 0; i < num_workers; ++i) workers.push_back({WorkerId(i), Incarnation(100 + i)});
  host->SetLiveWorkers(workers);
  return host;
}

ExchangeRequest MakeTestRequest(int worker, std::optional<Step> push_step,
                                std::optional<Step> pull_step, float value, uint64_t elements) {
  ExchangeRequest request;
  request.sender = {kTestJob, WorkerId(worker), Incarnation(100 + worker)};
  request.epoch = Epoch(1);
  const auto gradient =
      std::make_shared<std::vector<float>>(push_step.has_value() ? elements : 0, value);
  request.purpose =
      MakeDenseStep(push_step, pull_step, Payload(absl::MakeConstSpan(*gradient), gradient));
  return request;
}

std::unique_ptr<ParameterEndpoint> MakeTestClient(Clock* clock,
                                                  std::unique_ptr<ParameterEndpoint> connection) {
  ParameterClient::Options options;
  options.clock = clock;
  options.first_backoff = absl::Milliseconds(1);
  RoutingTable routing;
  routing.epoch = Epoch(1);
  routing.server_of_shard = {ServerId(0)};
  routing.servers = {{{"test"}}};
  return std::make_unique<ParameterClient>(
      options, ShardMap({1}, /*slice_bytes=*/sizeof(float), /*shard_count=*/1), routing,
      [&connection](ServerId, const ServerAddress&) { return std::move(connection); });
}

std::vector<float> ToVector(const Payload& payload) {
  std::vector<float> values(payload.size_bytes() / sizeof(float));
  payload.CopyTo(absl::MakeSpan(values));
  return values;
}

}  // namespace capstan
