#include "server/shard/one_table_host.h"

#include <utility>

#include "common/exchange/request_parts.h"
#include "common/optimizer/optimizer.h"
#include "server/consistency/update_scale.h"

namespace capstan {
namespace {

constexpr uint64_t kJob = 99;
const SliceKey kFirst{TableId(0), SliceIndex(0)};

}  // namespace

std::shared_ptr<const ConsistencySchedule> Schedule(std::vector<ConsistencyPeriod> periods) {
  return MakeConsistencySchedule(periods).value();
}

Incarnation IncarnationOf(int worker) { return Incarnation(1000 + worker); }

std::vector<ShardHost::Worker> Workers(const std::vector<int>& ids) {
  std::vector<ShardHost::Worker> workers;
  for (const int id : ids) workers.push_back({WorkerId(id), IncarnationOf(id)});
  return workers;
}

ShardHost::Options HostOptions(ConsistencyMode mode, int64_t staleness) {
  ShardHost::Options options;
  options.job = kJob;
  options.update_scale = UpdateScale::kSum;  // A pulled value is then the sum of the pushes.
  options.tables = {{"w", 20, 0.0, {}}};
  options.slice_bytes = 64;
  options.shard_count = 2;
  v1::OptimizerSpec sgd;
  sgd.set_type(v1::OptimizerSpec::SGD);
  sgd.set_learning_rate(1.0);
  options.optimizer = *MakeOptimizer(sgd);
  options.schedules = {Schedule({{Step(0), mode, staleness}})};
  options.shards = {ShardId(0), ShardId(1)};
  options.epoch = Epoch(1);
  return options;
}

std::unique_ptr<ShardHost> MakeHost(ConsistencyMode mode, int64_t staleness, int num_workers,
                                    Shard::Interruption interruption) {
  ShardHost::Options options = HostOptions(mode, staleness);
  options.interruption = std::move(interruption);
  std::unique_ptr<ShardHost> host = ShardHost::Create(std::move(options)).value();
  std::vector<int> ids;
  for (int i = 0; i < num_workers; ++i) ids.push_back(i);
  host->SetLiveWorkers(Workers(ids));
  return host;
}

ExchangeRequest Request(int worker, std::optional<Step> push, std::optional<Step> pull,
                        float gradient) {
  ExchangeRequest request;
  request.sender = {kJob, WorkerId(worker), IncarnationOf(worker)};
  request.epoch = Epoch(1);
  request.slice = kFirst;
  const auto values = std::make_shared<std::vector<float>>(16, gradient);
  request.purpose = MakeDenseStep(push, pull, Payload(absl::MakeConstSpan(*values), values));
  return request;
}

float Result::first_value() const {
  std::vector<float> values(reply.values.size_bytes() / sizeof(float));
  reply.values.CopyTo(absl::MakeSpan(values));
  return values.at(0);
}

std::shared_ptr<Result> Send(ShardHost& host, ExchangeRequest request) {
  auto result = std::make_shared<Result>();
  host.Exchange(
      std::move(request), [] {},
      [result](ExchangeReply reply) {
        ++result->replies;
        result->reply = std::move(reply);
      });
  return result;
}

std::shared_ptr<Result> PushPull(ShardHost& host, int worker, int64_t step, float gradient) {
  return Send(host, Request(worker, Step(step), Step(step + 1), gradient));
}

}  // namespace capstan
