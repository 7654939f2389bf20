#ifndef TESTS_BENCHMARK_COPY_COPIED_HOST_H_
#define TESTS_BENCHMARK_COPY_COPIED_HOST_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/grpc_replica_service.h"
#include "common/transport/grpc/grpc_server.h"
#include "server/service/replica_links.h"
#include "server/shard/shard_host.h"
#include "tests/benchmark/common/benchmark_job.h"
#include "tests/benchmark/copy/slow_link.h"

namespace capstan {

// A host that has the copies of its own shards. Changes go over gRPC and loopback all the same.
class CopiedHost : public ParameterEndpoint {
 public:
  // The host of a job with one server. `slow` null: the link is as fast as it can be. All arguments
  // outlive the host.
  static absl::StatusOr<std::unique_ptr<CopiedHost>> Create(const BenchmarkJob& job, Clock* clock,
                                                            SlowLink* slow = nullptr);
  ~CopiedHost() override;

  // The changes of other servers' shards: here, of its own.
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

  // Makes the copies, and waits until they are whole. Returns the bytes that were copied.
  uint64_t MakeCopies();

  ShardHost& host() { return *host_; }

 private:
  explicit CopiedHost(const BenchmarkJob& job) : job_(job), service_(this) {}

  const BenchmarkJob& job_;
  std::unique_ptr<ShardHost> host_;
  GrpcReplicaService service_;
  std::unique_ptr<GrpcServer> listening_;
  std::optional<ReplicaLinks> links_;
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_COPY_COPIED_HOST_H_
