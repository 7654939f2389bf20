#include "common/transport/grpc/grpc_server.h"

#include <glog/logging.h>
#include <grpc/compression.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/net/listening_socket.h"

namespace capstan {
namespace {

// A server without gRPC's own health service, and without plugins, such as reflection. Both would
// ask for no token.
class OnlyRegisteredServices : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* arguments) override {
    arguments->SetPointer(grpc::kHealthCheckServiceInterfaceArg, nullptr);
  }
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
  }
};

constexpr int kReadAheadBytes = 4 << 20;
constexpr int kReadBlockBytes = 1 << 20;
static_assert(kReadAheadBytes + 2 * kReadBlockBytes == GrpcServer::kStreamBytes);
constexpr int kFrameBytes = 64 << 10;
constexpr int kOnlyUncompressed = 1 << GRPC_COMPRESS_NONE;

// If a client does not answer a ping within this time, its streams end.
constexpr int kKeepaliveMilliseconds = 5000;

int Milliseconds(double seconds) {
  return static_cast<int>(std::min(std::ceil(seconds * 1000), double{INT32_MAX}));
}

// By default gRPC lets each client send twice the measured bandwidth-delay product ahead, without a
// bound. And it decompresses a message before it checks the size.
void BoundMemory(grpc::ServerBuilder& builder, const GrpcServer::Options& options) {
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kReadAheadBytes);
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBlockBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(options.limits.calls_per_connection()));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             Milliseconds(options.limits.handshake_seconds()));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             Milliseconds(options.limits.idle_connection_seconds()));
  builder.AddChannelArgument(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, kOnlyUncompressed);
}

// Gives a gate's connections to the server of `builder`, on the thread `handover`: gRPC may read
// there what a client sends, for as long as the client sends.
ConnectionGate::Taker TakerOf(grpc::ServerBuilder& builder, const GrpcSecurity& security,
                              BackgroundThreads* handover) {
  using Experimental = grpc::ServerBuilder::experimental_type;
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          Experimental::ExternalConnectionType::FROM_FD, security.server_credentials());
  return [acceptor, handover](int socket) {
    // Closes the socket if it is not handed over.
    auto owner = absl::MakeCleanup([socket] { close(socket); });
    handover->Add([acceptor, socket, owner = std::move(owner)]() mutable {
      std::move(owner).Cancel();
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.fd = socket;
      acceptor->HandleNewConnection(&connection);
    });
  };
}

void Configure(grpc::ServerBuilder& builder, absl::Span<grpc::Service* const> services) {
  // Otherwise a second server could listen on the same port, and get half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Clients ping idle connections to notice the end of this process.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.SetMaxSendMessageSize(kMaxViewBytes);
  for (grpc::Service* const service : services) builder.RegisterService(service);
}

// A stranger may send the longest message that is read before its call is admitted. All members of
// a large job may come at once: they open half of the connections that are admitted.
ConnectionGate::Limits GateLimits(const GrpcServer::Options& options) {
  const uint32_t unproved = options.limits.unproved_connections();
  ConnectionGate::Limits limits = {options.max_connections, unproved};
  if (!options.limits.has_unproved_connections()) {
    limits.unproved = std::max(unproved, options.max_connections / 2);
    limits.mean_stranger_bytes = limits.mean_stranger_bytes * unproved / limits.unproved;
  }
  limits.stranger_time = absl::Seconds(options.limits.handshake_seconds());
  limits.stranger_bytes = kReadAheadBytes + options.first_message_bytes;
  return limits;
}

using ReasonCounts = std::vector<std::pair<absl::string_view, int64_t>>;

ReasonCounts RefusalsOf(const CallGuard& guard) {
  const CallGuard::Refusals refusals = guard.refusals();
  ReasonCounts counts;
  for (size_t i = 0; i < refusals.size(); ++i) {
    counts.emplace_back(CallGuard::ReasonName(static_cast<CallGuard::Reason>(i)), refusals[i]);
  }
  return counts;
}

ReasonCounts ClosingsOf(const ConnectionGate::Counts& counts) {
  return {{"time", counts.time},
          {"bytes", counts.bytes},
          {"too_many", counts.too_many},
          {"ended", counts.ended}};
}

// " (token 3, right 1)"; "" if all are 0.
std::string Reasons(const ReasonCounts& counts) {
  std::vector<std::string> texts;
  for (const auto& [reason, count] : counts) {
    if (count > 0) texts.push_back(absl::StrCat(reason, " ", count));
  }
  return texts.empty() ? "" : absl::StrCat(" (", absl::StrJoin(texts, ", "), ")");
}

bool MayLeaveMachine(const CallGuard* guard) {
  return guard != nullptr && (guard->security()->is_tls() || guard->security()->is_insecure());
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const std::string& listen, absl::Span<grpc::Service* const> services, const Options& options) {
  ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress("--listen", listen));
  const std::string& host = address.host;
  int port = address.port;
  if (!MayLeaveMachine(options.guard)) RETURN_IF_ERROR(CheckLoopback("--listen", listen, host));
  // gRPC adds both services only to servers built after these calls.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  std::unique_ptr<BackgroundThreads> handover;
  std::unique_ptr<ConnectionGate> gate;
  ConnectionGate::Taker take;
  if (options.guard != nullptr) {
    gate = ConnectionGate::Listen(host, port, GateLimits(options));
    if (gate == nullptr) return CannotListen("--listen", listen);
    port = gate->port();
    handover = std::make_unique<BackgroundThreads>(options.guard->clock(), /*num_threads=*/1);
    take = TakerOf(builder, *options.guard->security(), handover.get());
    if (options.guard->security()->tokens() != nullptr) {
      builder.SetOption(std::make_unique<OnlyRegisteredServices>());
    }
  } else {
    builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  }
  Configure(builder, services);
  BoundMemory(builder, options);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return CannotListen("--listen", listen);
  if (gate != nullptr) {
    options.guard->set_prove_connection(
        [gate = gate.get()](const std::string& peer, bool is_member) {
          return gate->Prove(peer, is_member);
        });
    gate->Open(std::move(take));
  }
  return std::unique_ptr<GrpcServer>(
      new GrpcServer(std::move(server), absl::StrCat(host, ":", port), std::move(handover),
                     std::move(gate), options.guard));
}

GrpcServer::~GrpcServer() { Shutdown(absl::UnixEpoch()); }

void GrpcServer::Shutdown(absl::Time deadline) {
  if (gate_ != nullptr) gate_->Close();
  server_->Shutdown(absl::ToChronoTime(deadline));
  handover_ = nullptr;
  // No call is open any more that could ask the gate.
  if (gate_ != nullptr) guard_->set_prove_connection(nullptr);
  gate_ = nullptr;
}

ConnectionGate::Counts GrpcServer::connections() const {
  return gate_ == nullptr ? ConnectionGate::Counts() : gate_->counts();
}

void LogRefused(const CallGuard& guard, const GrpcServer& server) {
  const ReasonCounts calls = RefusalsOf(guard);
  const ConnectionGate::Counts connections = server.connections();
  if (guard.refused_calls() + connections.strangers() == 0) return;
  LOG(WARNING) << "refused " << guard.refused_calls() << " calls" << Reasons(calls) << "; "
               << connections.strangers() << " connections ended without an admitted call"
               << Reasons(ClosingsOf(connections));
}

void AddConnectionMetrics(const CallGuard& guard, const GrpcServer& server, MetricsPage& page) {
  for (const auto& [reason, count] : RefusalsOf(guard)) {
    page.Add("capstan_refused_calls_total", {{"reason", reason}}, static_cast<double>(count));
  }
  const ConnectionGate::Counts connections = server.connections();
  for (const auto& [reason, count] : ClosingsOf(connections)) {
    page.Add("capstan_closed_connections_total", {{"reason", reason}}, static_cast<double>(count));
  }
  page.Add("capstan_connections", {{"state", "proved"}}, connections.proved);
  page.Add("capstan_connections", {{"state", "unproved"}}, connections.unproved);
}

}  // namespace capstan
