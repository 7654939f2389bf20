#include "tests/benchmark/common/benchmark_transport.h"

#include <memory>
#include <utility>

#include "absl/strings/str_split.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_replica_service.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/reply_order.h"
#include "common/transport/ucx/grpc_ucx_service.h"
#include "common/transport/ucx/ucx_transport.h"
#include "server/shard/owner_threads.h"

namespace capstan {
namespace {

constexpr char kAnyPort[] = "127.0.0.1:0";
constexpr uint64_t kMaxInflightBytes = 64 << 20;
constexpr uint32_t kMostConnections = 1 << 16;

}  // namespace

absl::Status BenchmarkTransport::Check() const {
  if (transport != "grpc" && transport != "ucx") {
    return absl::InvalidArgumentError("--transport: expected grpc or ucx, got " + transport);
  }
  if (ucx_poll != "sleep" && ucx_poll != "busy") {
    return absl::InvalidArgumentError("--ucx_poll: expected sleep or busy, got " + ucx_poll);
  }
  if (owner_threads.value_or(0) < 0) {
    return absl::InvalidArgumentError("--owner_threads: expected 0 or more");
  }
  return absl::OkStatus();
}

absl::Status BenchmarkTransport::Serve(ParameterEndpoint* endpoint,
                                       ForkedProcess::Parent& parent) const {
  RealClock clock;
  CallGuard::Options guarded;
  guarded.clock = &clock;
  ASSIGN_OR_RETURN(guarded.security, GrpcSecurity::Open({keys, /*is_insecure=*/false, &clock}));
  CallGuard guard(guarded);
  GrpcServer::Options options;
  options.guard = &guard;
  options.max_connections = kMostConnections;
  if (transport == "grpc") {
    // The connections to a server share a job's default credit.
    ReplyOrder order;
    order.credit_bytes /= static_cast<uint64_t>(grpc_connections);
    GrpcParameterService service(endpoint, kMaxInflightBytes, order, /*streams=*/nullptr, &guard);
    ASSIGN_OR_RETURN(const std::unique_ptr<GrpcServer> listening,
                     GrpcServer::Start(kAnyPort, {&service}, options));
    parent.WriteLine(listening->address());
    parent.ReadLine();
    return absl::OkStatus();
  }
  OwnerThreads owners(endpoint, &clock, owner_threads.value_or(OwnerThreads::DefaultCount()));
  ASSIGN_OR_RETURN(const std::unique_ptr<UcxTransport> ucx,
                   StartUcxTransportOfJob(Spec(), &clock, [](const absl::Status&) {},
                                          {guarded.security, /*job=*/""}));
  const std::unique_ptr<UcxTransport::Listener> listener = ucx->Listen(&owners, ReplyOrder());
  GrpcUcxService service(listener.get(), /*streams=*/nullptr, &guard);
  ASSIGN_OR_RETURN(const std::unique_ptr<GrpcServer> listening,
                   GrpcServer::Start(kAnyPort, {&service}, options));
  parent.WriteLine(listening->address());
  parent.ReadLine();
  return absl::OkStatus();
}

absl::Status BenchmarkTransport::ServeCopies(
    ParameterEndpoint* endpoint, ParameterEndpoint* records,
    absl::FunctionRef<void(const std::vector<std::string>&)> connect,
    ForkedProcess::Parent& parent) const {
  GrpcServer::Options options;
  options.max_connections = kMostConnections;
  ReplyOrder order;
  order.credit_bytes /= static_cast<uint64_t>(grpc_connections);
  GrpcParameterService service(endpoint, kMaxInflightBytes, order);
  GrpcReplicaService replicas(records);
  ASSIGN_OR_RETURN(const std::unique_ptr<GrpcServer> listening,
                   GrpcServer::Start(kAnyPort, {&service, &replicas}, options));
  parent.WriteLine(listening->address());
  connect(absl::StrSplit(parent.ReadLine(), ','));
  parent.WriteLine("whole");
  parent.ReadLine();
  return absl::OkStatus();
}

v1::TransportSpec BenchmarkTransport::Spec() const {
  v1::TransportSpec spec;
  spec.set_type(transport == "ucx" ? v1::TransportSpec::UCX : v1::TransportSpec::GRPC);
  spec.set_max_inflight_bytes(kMaxInflightBytes);
  spec.set_grpc_connections(static_cast<uint32_t>(grpc_connections));
  spec.set_ucx_poll(ucx_poll == "busy" ? v1::TransportSpec::BUSY : v1::TransportSpec::SLEEP);
  spec.set_ucx_transports(ucx_transports);
  spec.set_insecure_data_plane(!ucx_transports.empty());
  return spec;
}

ServerConnector BenchmarkTransport::Connector(Clock* clock, SecurityPointer security) const {
  ConnectOptions options;
  options.transport = Spec();
  options.clock = clock;
  options.member.security = std::move(security);
  return ConnectToServers(options);
}

}  // namespace capstan
