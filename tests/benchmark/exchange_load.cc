#include "tests/benchmark/exchange_load.h"

#include <algorithm>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/routing/placement.h"
#include "common/routing/routing_table.h"
#include "common/routing/server_address.h"
#include "common/tensor/buffer_pool.h"
#include "proto/job.pb.h"
#include "server/consistency/make_consistency_schedule.h"
#include "server/optimizer/make_optimizer.h"
#include "worker/client/parameter_client.h"

namespace capstan {
namespace {

constexpr uint64_t kJob = 42;
constexpr uint32_t kShards = 64;
constexpr uint64_t kFirstIncarnation = 100;
constexpr size_t kMostLatencies = 1 << 20;

uint64_t Elements(const ExchangeLoad& load) { return load.slice_bytes / sizeof(float); }

ShardMap MapOf(const ExchangeLoad& load) {
  const uint64_t elements = Elements(load) * static_cast<uint64_t>(load.inflight);
  return ShardMap({elements}, load.slice_bytes, kShards);
}

// One slice of one worker, always in flight.
struct Lane {
  std::shared_ptr<uint8_t> gradient;
  std::shared_ptr<uint8_t> values;
  Step step = Step(0);
  absl::Time sent;
};

class Worker {
 public:
  Worker(const ExchangeLoad& load, ParameterClient* client, absl::Time begin, absl::Time end,
         Clock* clock)
      : load_(load), client_(client), begin_(begin), end_(end), clock_(clock) {
    lanes_.resize(load.inflight);
    for (Lane& lane : lanes_) {
      for (std::shared_ptr<uint8_t>* memory : {&lane.gradient, &lane.values}) {
        *memory = buffers_.Take(load.slice_bytes);
        std::fill_n(reinterpret_cast<float*>(memory->get()), Elements(load), 1e-6f);
      }
    }
  }

  absl::StatusOr<ExchangeCount> Run() {
    {
      MutexLock lock(&mu_);
      open_ = load_.inflight;
    }
    for (int lane = 0; lane < load_.inflight; ++lane) Send(lane);
    MutexLock lock(&mu_);
    while (open_ > 0) clock_->WaitUntil(mu_, ended_, absl::InfiniteFuture());
    RETURN_IF_ERROR(status_);
    return std::move(count_);
  }

 private:
  void Send(int index) {
    Lane& lane = lanes_[index];
    lane.sent = clock_->Now();
    const Payload gradient({reinterpret_cast<const float*>(lane.gradient.get()), Elements(load_)},
                           lane.gradient);
    client_->Exchange(
        {TableId(0), SliceIndex(static_cast<uint32_t>(index))}, lane.step, gradient, lane.step + 1,
        {reinterpret_cast<float*>(lane.values.get()), Elements(load_)}, [] {},
        [this, index](ExchangeReply reply) { OnReply(index, reply); });
  }

  void OnReply(int index, const ExchangeReply& reply) {
    Lane& lane = lanes_[index];
    const absl::Span<float> values(reinterpret_cast<float*>(lane.values.get()), Elements(load_));
    if (reply.status.ok()) reply.values.CopyTo(values);
    const absl::Time now = clock_->Now();
    const bool is_over = now >= end_ || !reply.status.ok();
    {
      MutexLock lock(&mu_);
      if (!reply.status.ok()) status_ = reply.status;
      if (now >= begin_ && now < end_) {
        ++count_.exchanges;
        count_.bytes += 2 * load_.slice_bytes;
        if (count_.seconds.size() < kMostLatencies) {
          count_.seconds.push_back(static_cast<float>(absl::ToDoubleSeconds(now - lane.sent)));
        }
      }
      if (is_over) --open_;
      if (open_ == 0) ended_.NotifyAll();
    }
    if (is_over) return;
    lane.step = lane.step + 1;
    Send(index);
  }

  const ExchangeLoad& load_;
  ParameterClient* const client_;
  const absl::Time begin_;
  const absl::Time end_;
  Clock* const clock_;
  BufferPool buffers_;
  std::vector<Lane> lanes_;

  Mutex mu_;
  CondVar ended_;
  int open_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  ExchangeCount count_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShardHost>> ExchangeLoad::MakeHost(int server) const {
  ShardHost::Options options;
  options.job = kJob;
  options.tables = {{"values", Elements(*this) * static_cast<uint64_t>(inflight), 0}};
  options.slice_bytes = slice_bytes;
  options.shard_count = kShards;
  v1::OptimizerSpec spec;
  spec.set_learning_rate(0.01);
  v1::OptimizerSpec::Type type;
  std::string name = optimizer;
  std::transform(name.begin(), name.end(), name.begin(), ::toupper);
  if (!v1::OptimizerSpec::Type_Parse(name, &type)) {
    return absl::InvalidArgumentError("--optimizer: expected sgd, momentum, adam, ... , got " +
                                      optimizer);
  }
  spec.set_type(type);
  ASSIGN_OR_RETURN(options.optimizer, MakeOptimizer(spec));
  const ConsistencyPeriod async = {Step(0), ConsistencyMode::kAsync, 0};
  ASSIGN_OR_RETURN(const auto schedule, MakeConsistencySchedule({&async, 1}));
  options.schedules = {schedule};
  const std::vector<ServerId> placement = PlaceShards(MapOf(*this).shard_bytes(), num_servers);
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    if (placement[shard] == ServerId(server)) options.shards.push_back(ShardId(shard));
  }
  options.epoch = Epoch(1);
  auto host = std::make_unique<ShardHost>(std::move(options));
  std::vector<ShardHost::Worker> workers;
  for (int i = 0; i < num_workers; ++i) {
    workers.push_back({WorkerId(i), Incarnation(kFirstIncarnation + i)});
  }
  host->SetLiveWorkers(workers);
  return host;
}

absl::StatusOr<ExchangeCount> RunExchanges(
    const ExchangeLoad& load, int worker, const std::vector<std::string>& addresses,
    const std::function<std::unique_ptr<ParameterEndpoint>(const std::string& address)>& connect,
    absl::Time begin, absl::Time end, Clock* clock) {
  ParameterClient::Options options;
  options.job = kJob;
  options.worker = WorkerId(worker);
  options.incarnation = Incarnation(kFirstIncarnation + worker);
  options.clock = clock;
  ShardMap map = MapOf(load);
  RoutingTable routing;
  routing.epoch = Epoch(1);
  routing.server_of_shard = PlaceShards(map.shard_bytes(), load.num_servers);
  for (const std::string& address : addresses) routing.server_address.push_back({address});
  ParameterClient client(
      options, std::move(map), routing,
      [&connect](ServerId, const ServerAddress& address) { return connect(address.grpc); });
  return Worker(load, &client, begin, end, clock).Run();
}

}  // namespace capstan
