#include "tests/benchmark/benchmark_transport.h"

#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc_endpoint.h"
#include "common/transport/reply_order.h"
#include "common/transport/retrying_endpoint.h"
#include "server/service/grpc_parameter_service.h"
#include "server/service/grpc_server.h"
#include "server/service/grpc_ucx_service.h"
#include "server/shard/owner_threads.h"

namespace capstan {
namespace {

constexpr char kAnyPort[] = "127.0.0.1:0";
constexpr uint64_t kMaxInflightBytes = 64 << 20;

absl::StatusOr<std::unique_ptr<UcxTransport>> StartUcx(const BenchmarkTransport& transport,
                                                       Clock* clock) {
  UcxTransport::Options options;
  options.clock = clock;
  options.polls = transport.ucx_poll == "busy";
  options.transports = transport.ucx_transports;
  return StartUcxTransport(options);
}

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
  if (transport == "grpc") {
    // Of the credit that a job has by default, as each connection of its servers.
    ReplyOrder order;
    order.credit_bytes /= static_cast<uint64_t>(grpc_connections);
    GrpcParameterService service(endpoint, kMaxInflightBytes, order);
    ASSIGN_OR_RETURN(const std::unique_ptr<GrpcServer> listening,
                     GrpcServer::Start(kAnyPort, {&service}));
    parent.WriteLine(listening->address());
    parent.ReadLine();
    return absl::OkStatus();
  }
  RealClock clock;
  OwnerThreads owners(endpoint, &clock, owner_threads.value_or(OwnerThreads::DefaultCount()));
  ASSIGN_OR_RETURN(const std::unique_ptr<UcxTransport> ucx, StartUcx(*this, &clock));
  const std::unique_ptr<UcxTransport::Listener> listener = ucx->Listen(&owners, ReplyOrder());
  GrpcUcxService service(listener.get());
  ASSIGN_OR_RETURN(const std::unique_ptr<GrpcServer> listening,
                   GrpcServer::Start(kAnyPort, {&service}));
  parent.WriteLine(listening->address());
  parent.ReadLine();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BenchmarkConnector>> BenchmarkConnector::Create(
    const BenchmarkTransport& transport, Clock* clock) {
  std::unique_ptr<BenchmarkConnector> connector(
      new BenchmarkConnector(clock, transport.grpc_connections));
  if (transport.transport == "ucx") {
    ASSIGN_OR_RETURN(connector->ucx_, StartUcx(transport, clock));
  }
  return connector;
}

std::unique_ptr<ParameterEndpoint> BenchmarkConnector::Connect(const std::string& address) {
  RetryingEndpoint::Options options;
  options.clock = clock_;
  options.peer = "the server at " + address;
  return std::make_unique<RetryingEndpoint>(
      options, ucx_ != nullptr ? ucx_->Connect(address)
                               : ConnectOverGrpc(address, grpc_connections_, clock_));
}

}  // namespace capstan
