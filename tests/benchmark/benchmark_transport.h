#ifndef TESTS_BENCHMARK_BENCHMARK_TRANSPORT_H_
#define TESTS_BENCHMARK_BENCHMARK_TRANSPORT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/transport/parameter_endpoint.h"
#include "common/transport/ucx_transport.h"
#include "tests/process/forked_process.h"

namespace capstan {

// What exchanges travel over in a benchmark, named as on its command line.
struct BenchmarkTransport {
  std::string transport = "ucx";     // or grpc
  std::string ucx_poll = "sleep";    // or busy
  std::string ucx_transports;        // that UCX may use; empty: shared memory and RDMA
  int grpc_connections = 4;          // of each worker to each server
  std::optional<int> owner_threads;  // of a server, over UCX; none: as many as servers have

  // INVALID_ARGUMENT, naming the flag that is wrong.
  absl::Status Check() const;

  // Lets `endpoint` serve on this machine, tells the parent the address, and returns when the
  // parent says a line or is gone.
  absl::Status Serve(ParameterEndpoint* endpoint, ForkedProcess::Parent& parent) const;
};

// Connects one process to servers, and tries again what a connection loses. Outlives its
// connections.
class BenchmarkConnector {
 public:
  static absl::StatusOr<std::unique_ptr<BenchmarkConnector>> Create(
      const BenchmarkTransport& transport, Clock* clock);

  std::unique_ptr<ParameterEndpoint> Connect(const std::string& address);

 private:
  BenchmarkConnector(Clock* clock, int grpc_connections)
      : clock_(clock), grpc_connections_(grpc_connections) {}

  Clock* const clock_;
  const int grpc_connections_;
  std::unique_ptr<UcxTransport> ucx_;  // null: gRPC
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_BENCHMARK_TRANSPORT_H_
