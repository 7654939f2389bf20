#ifndef TESTS_BENCHMARK_COMMON_BENCHMARK_JOB_H_
#define TESTS_BENCHMARK_COMMON_BENCHMARK_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/codec/table_codecs.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/optimizer/optimizer.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/consistency/consistency_policy.h"
#include "server/service/replica_links.h"
#include "server/shard/shard_host.h"
#include "worker/client/parameter_client.h"

namespace capstan {

// A job of one table, of zeros or sparse, without a coordinator. All workers are members from the
// beginning, and every process knows the server of each shard.
struct BenchmarkJob {
  uint64_t table_bytes = 0;
  uint32_t row_dim = 0;  // above 0: the table is sparse, with rows of so many values
  uint64_t slice_bytes = 0;
  int num_workers = 1;
  int num_servers = 1;
  uint32_t shard_count = 64;
  std::string optimizer = "sgd";
  std::string codec = "float32";  // of rows, in both directions
  double learning_rate = 0.01;
  ConsistencyMode consistency = ConsistencyMode::kAsync;
  // Measures exchanges for metrics, as capstan_server does. Outlives the host. Null: nothing does.
  const Clock* server_clock = nullptr;
  bool keeps_open_step = false;  // as in ShardHost::Options
  bool has_copies = false;       // the next server has a copy of each shard of one

  // The table, as workers know it.
  v1::TableSpec TableSpec() const;
  // How pushed and pulled rows are encoded. INVALID_ARGUMENT: there is no such codec.
  absl::StatusOr<TableCodecs> Codecs() const;
  // All but the learning rate is the default. INVALID_ARGUMENT: there is no such optimizer.
  absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer() const;
  // The shards of one server; zeros unless they come from `source`. INVALID_ARGUMENT: there is no
  // such optimizer for the table. Or an error of `source`.
  absl::StatusOr<std::unique_ptr<ShardHost>> MakeHost(int server,
                                                      ShardHost::Source source = {}) const;
  // Makes the copies of the shards of a server with has_copies, and waits until they are whole. The
  // others have their hosts. `links` outlives the host's exchanges.
  void MakeCopies(int server, const std::vector<std::string>& addresses, ReplicaLinks& links,
                  ShardHost& host) const;
  // Who sends the changes of its shards.
  Sender SenderOf(int server) const;
  // Each value after 0 ... `pushes` pushes of this gradient, under async.
  // INVALID_ARGUMENT: there is no such optimizer.
  absl::StatusOr<std::vector<float>> ValuesAfter(uint64_t pushes, float gradient) const;
  // The request of a worker to such a host, of a dense step still without push and pull.
  ExchangeRequest RequestOf(int worker, uint32_t slice) const;

  absl::StatusOr<v1::OptimizerSpec> OptimizerSpec() const;

  // A client of the servers at `addresses`. `connect` makes its connections.
  using Connect = std::function<std::unique_ptr<ParameterEndpoint>(const std::string& address)>;
  std::unique_ptr<ParameterClient> MakeClient(const std::vector<std::string>& addresses,
                                              const Connect& connect, Clock* clock) const;
};

// A connection to a host in this process.
class HostConnection : public ParameterEndpoint {
 public:
  explicit HostConnection(ShardHost* host) : host_(*host) {}
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    host_.Exchange(std::move(request), std::move(delivered), std::move(done));
  }

 private:
  ShardHost& host_;
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_COMMON_BENCHMARK_JOB_H_
