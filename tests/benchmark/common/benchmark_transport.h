#ifndef TESTS_BENCHMARK_COMMON_BENCHMARK_TRANSPORT_H_
#define TESTS_BENCHMARK_COMMON_BENCHMARK_TRANSPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "proto/job.pb.h"
#include "tests/process/forked_process.h"
#include "worker/client/connect_to_servers.h"

namespace capstan {

// The transport of a benchmark. Fields have the names of its flags.
struct BenchmarkTransport {
  std::string transport = "ucx";     // or grpc
  std::string ucx_poll = "sleep";    // or busy
  std::string ucx_transports;        // UCX is restricted to them; empty: shared memory and RDMA
  int grpc_connections = 4;          // of each worker to each server
  std::optional<int> owner_threads;  // of a server, over UCX; unset: as capstan_server has
  std::string keys;                  // of a server: folder of keys; empty: plaintext

  // INVALID_ARGUMENT, with the name of the wrong flag.
  absl::Status Check() const;

  // The transport of a job with these flags.
  v1::TransportSpec Spec() const;

  // Connects one process to servers.
  ServerConnector Connector(Clock* clock, SecurityPointer security = NoSecurity()) const;

  // Serves `endpoint` on this machine and tells the parent the address. Returns when the parent
  // writes a line or is gone.
  absl::Status Serve(ParameterEndpoint* endpoint, ForkedProcess::Parent& parent) const;
  // The same over gRPC, for servers with copies: `records` gets the changes of others. The parent
  // then writes the addresses of all servers in a line, gets one once `connect` has returned, and
  // writes the last one.
  absl::Status ServeCopies(ParameterEndpoint* endpoint, ParameterEndpoint* records,
                           absl::FunctionRef<void(const std::vector<std::string>&)> connect,
                           ForkedProcess::Parent& parent) const;
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_COMMON_BENCHMARK_TRANSPORT_H_
