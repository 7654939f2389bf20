#ifndef TESTS_BENCHMARK_BENCHMARK_JOB_H_
#define TESTS_BENCHMARK_BENCHMARK_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "server/consistency/consistency_policy.h"
#include "server/optimizer/optimizer.h"
#include "server/shard/shard_host.h"
#include "worker/client/parameter_client.h"

namespace capstan {

// A job of one table of zeros, without a coordinator: all workers are members from the beginning,
// and every process knows where each shard lives.
struct BenchmarkJob {
  uint64_t table_bytes = 0;
  uint64_t slice_bytes = 0;
  int num_workers = 1;
  int num_servers = 1;
  uint32_t shard_count = 64;
  std::string optimizer = "sgd";
  double learning_rate = 0.01;
  ConsistencyMode consistency = ConsistencyMode::kAsync;

  // INVALID_ARGUMENT: there is no such optimizer. What it needs besides the learning rate is the
  // default.
  absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer() const;
  // The shards of one server. INVALID_ARGUMENT: there is no such optimizer.
  absl::StatusOr<std::unique_ptr<ShardHost>> MakeHost(int server) const;
  // What each value is, under async, after 0 ... `pushes` pushes of this gradient.
  // INVALID_ARGUMENT: there is no such optimizer.
  absl::StatusOr<std::vector<float>> ValuesAfter(uint64_t pushes, float gradient) const;
  // What such a host expects of a worker, without push and pull.
  ExchangeRequest RequestOf(int worker, uint32_t slice) const;

  // A client that `connect` connects to the servers of `addresses`.
  using Connect = std::function<std::unique_ptr<ParameterEndpoint>(const std::string& address)>;
  std::unique_ptr<ParameterClient> MakeClient(const std::vector<std::string>& addresses,
                                              const Connect& connect, Clock* clock) const;
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_BENCHMARK_JOB_H_
