#include "tests/benchmark/common/benchmark_job.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/optimizer/optimizer.h"
#include "common/routing/placement.h"
#include "common/routing/routing_table.h"
#include "proto/job.pb.h"
#include "server/consistency/consistency_schedule.h"
#include "server/consistency/update_scale.h"
#include "server/optimizer/table_optimizers.h"

namespace capstan {
namespace {

constexpr uint64_t kJob = 42;
constexpr uint64_t kFirstIncarnation = 100;

ShardMap MapOf(const BenchmarkJob& job) {
  const uint64_t elements = job.row_dim > 0 ? 0 : job.table_bytes / sizeof(float);
  return ShardMap({elements}, job.slice_bytes, job.shard_count);
}

// The server with the copies of this one's shards.
ServerId CopyOf(ServerId primary, int num_servers) {
  return ServerId((primary.value() + 1) % static_cast<uint32_t>(num_servers));
}

Incarnation IncarnationOf(int server) { return Incarnation(500 + static_cast<uint64_t>(server)); }

}  // namespace

v1::TableSpec BenchmarkJob::TableSpec() const {
  v1::TableSpec table;
  table.set_name("values");
  if (row_dim > 0) {
    table.mutable_sparse()->set_dim(row_dim);
  } else {
    table.add_shape(table_bytes / sizeof(float));
  }
  return table;
}

absl::StatusOr<v1::OptimizerSpec> BenchmarkJob::OptimizerSpec() const {
  v1::OptimizerSpec spec;
  spec.set_learning_rate(learning_rate);
  std::string name = optimizer;
  std::transform(name.begin(), name.end(), name.begin(), ::toupper);
  v1::OptimizerSpec::Type type;
  if (!v1::OptimizerSpec::Type_Parse(name, &type)) {
    return absl::InvalidArgumentError("--optimizer: expected sgd, momentum, adam, ... , got " +
                                      optimizer);
  }
  spec.set_type(type);
  return spec;
}

absl::StatusOr<TableCodecs> BenchmarkJob::Codecs() const {
  TableCodecs codecs;
  ASSIGN_OR_RETURN(codecs.push, MakeCodec(codec));
  codecs.pull = codecs.push;
  return codecs;
}

absl::StatusOr<std::unique_ptr<Optimizer>> BenchmarkJob::MakeOptimizer() const {
  ASSIGN_OR_RETURN(const v1::OptimizerSpec spec, OptimizerSpec());
  return capstan::MakeOptimizer(spec);
}

absl::StatusOr<std::unique_ptr<ShardHost>> BenchmarkJob::MakeHost(int server,
                                                                  ShardHost::Source source) const {
  ShardHost::Options options;
  options.job = kJob;
  options.tables = {{"values", row_dim > 0 ? 0 : table_bytes / sizeof(float), 0, {}}};
  options.slice_bytes = slice_bytes;
  options.shard_count = shard_count;
  if (row_dim > 0) {
    ASSIGN_OR_RETURN(const v1::OptimizerSpec spec, OptimizerSpec());
    options.tables[0].sparse = ShardHost::SparseTable();
    ASSIGN_OR_RETURN(options.tables[0].codecs, Codecs());
    ASSIGN_OR_RETURN(options.tables[0].sparse->optimizer, MakeRowOptimizer(spec, row_dim));
  } else {
    ASSIGN_OR_RETURN(options.optimizer, MakeOptimizer());
  }
  const ConsistencyPeriod period = {Step(0), consistency, 0};
  ASSIGN_OR_RETURN(const auto schedule, MakeConsistencySchedule({&period, 1}));
  options.schedules = {schedule};
  options.update_scale = UpdateScale::kSum;  // the pushes determine the pulled values
  const std::vector<ServerId> placement = PlaceShards(MapOf(*this).shard_bytes(), num_servers);
  for (uint32_t shard = 0; shard < shard_count; ++shard) {
    if (placement[shard] == ServerId(server)) options.shards.push_back(ShardId(shard));
    if (has_copies && CopyOf(placement[shard], num_servers) == ServerId(server)) {
      options.backups.push_back(ShardId(shard));
    }
  }
  options.incarnation = IncarnationOf(server);
  options.epoch = Epoch(1);
  options.clock = server_clock;
  options.keeps_open_step = keeps_open_step;
  ASSIGN_OR_RETURN(std::unique_ptr<ShardHost> host, ShardHost::Create(std::move(options), source));
  std::vector<ShardHost::Worker> workers;
  for (int i = 0; i < num_workers; ++i) {
    workers.push_back({WorkerId(i), Incarnation(kFirstIncarnation + i)});
  }
  host->SetLiveWorkers(workers);
  return host;
}

Sender BenchmarkJob::SenderOf(int server) const {
  return {kJob, WorkerId(server), IncarnationOf(server)};
}

void BenchmarkJob::MakeCopies(int server, const std::vector<std::string>& addresses,
                              ReplicaLinks& links, ShardHost& host) const {
  for (uint32_t shard = 0; shard < shard_count; ++shard) {
    if (host.backup(ShardId(shard)) != nullptr) host.ExpectCopy(ShardId(shard), /*number=*/1);
  }
  const int backup = static_cast<int>(CopyOf(ServerId(server), num_servers).value());
  ReplicaLink* const link = links.To(addresses[backup], IncarnationOf(backup));
  for (const ShardId shard : host.shards()) {
    host.BeginCopy(shard, {/*number=*/1, IncarnationOf(backup), link});
  }
  const auto are_whole = [&host] {
    const auto copies = host.copies();
    return std::all_of(copies.begin(), copies.end(),
                       [](const auto& copy) { return copy.second.is_whole; });
  };
  while (!are_whole()) absl::SleepFor(absl::Milliseconds(1));
}

absl::StatusOr<std::vector<float>> BenchmarkJob::ValuesAfter(uint64_t pushes,
                                                             float gradient) const {
  ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer, MakeOptimizer());
  std::vector<float> memory(optimizer->state_count());
  std::vector<absl::Span<float>> state;
  for (float& element : memory) state.push_back({&element, 1});
  float value = 0;
  std::vector<float> values = {value};
  for (uint64_t push = 1; push <= pushes; ++push) {
    optimizer->Apply({&gradient, 1}, {static_cast<int64_t>(push)}, {&value, 1}, state);
    values.push_back(value);
  }
  return values;
}

ExchangeRequest BenchmarkJob::RequestOf(int worker, uint32_t slice) const {
  const Sender sender = {kJob, WorkerId(worker), Incarnation(kFirstIncarnation + worker)};
  return {sender, Epoch(1), {TableId(0), SliceIndex(slice)}};
}

std::unique_ptr<ParameterClient> BenchmarkJob::MakeClient(const std::vector<std::string>& addresses,
                                                          const Connect& connect,
                                                          Clock* clock) const {
  ParameterClient::Options options;
  options.clock = clock;
  ShardMap map = MapOf(*this);
  RoutingTable routing;
  routing.epoch = Epoch(1);
  routing.server_of_shard = PlaceShards(map.shard_bytes(), num_servers);
  for (const std::string& address : addresses) routing.servers.push_back({{address}});
  return std::make_unique<ParameterClient>(
      options, std::move(map), routing,
      [&connect](ServerId, const ServerAddress& address) { return connect(address.grpc); });
}

}  // namespace capstan
