#include "common/transport/grpc/grpc_server.h"

#include <grpc/compression.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

constexpr int kReadAheadBytes = 4 << 20;
constexpr int kReadBlockBytes = 1 << 20;
static_assert(kReadAheadBytes + 2 * kReadBlockBytes == GrpcServer::kStreamBytes);
constexpr int kFrameBytes = 64 << 10;
constexpr int kStreamsPerConnection = 4;  // Our clients open fewer.
constexpr int kOnlyUncompressed = 1 << GRPC_COMPRESS_NONE;

// If a client does not answer a ping within this time, its streams end.
constexpr int kKeepaliveMilliseconds = 5000;

// A connection is closed if its handshake takes longer, or if it has no call for longer.
constexpr int kGreetingMilliseconds = 10 * 1000;
constexpr int kIdleMilliseconds = 60 * 1000;

// By default gRPC lets each client send twice the measured bandwidth-delay product ahead, without a
// bound. And it decompresses a message before it checks the size.
void BoundMemory(grpc::ServerBuilder& builder, int max_message_bytes) {
  builder.SetMaxReceiveMessageSize(max_message_bytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kReadAheadBytes);
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBlockBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
  builder.AddChannelArgument(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, kOnlyUncompressed);
}

// Gives a gate's connections to the server of `builder`.
ConnectionGate::Taker TakerOf(grpc::ServerBuilder& builder) {
  using Experimental = grpc::ServerBuilder::experimental_type;
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          Experimental::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  return [acceptor](int socket) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = socket;
    acceptor->HandleNewConnection(&connection);
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
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kGreetingMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMilliseconds);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  for (grpc::Service* const service : services) builder.RegisterService(service);
}

absl::Status CannotListen(const std::string& listen) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", listen,
                   ": the port is in use, or the host is not of this machine; choose another "
                   "--listen, with port 0 for any free one"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const std::string& listen, absl::Span<grpc::Service* const> services, uint32_t max_connections,
    int max_message_bytes) {
  const size_t colon = listen.rfind(':');
  int port = -1;
  if (colon == std::string::npos || !absl::SimpleAtoi(listen.substr(colon + 1), &port) ||
      port < 0 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen: expected host:port with a port from 0 to 65535, got \"", listen, "\""));
  }
  const std::string host = listen.substr(0, colon);
  // gRPC adds both services only to servers built after these calls.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  std::unique_ptr<ConnectionGate> gate;
  ConnectionGate::Taker take;
  if (max_connections > 0) {
    gate = ConnectionGate::Listen(host, port, max_connections);
    if (gate == nullptr) return CannotListen(listen);
    port = gate->port();
    take = TakerOf(builder);
  } else {
    builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  }
  Configure(builder, services);
  BoundMemory(builder, max_message_bytes);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return CannotListen(listen);
  if (gate != nullptr) gate->Open(std::move(take));
  return std::unique_ptr<GrpcServer>(
      new GrpcServer(std::move(server), absl::StrCat(host, ":", port), std::move(gate)));
}

GrpcServer::~GrpcServer() { Shutdown(absl::UnixEpoch()); }

void GrpcServer::Shutdown(absl::Time deadline) {
  gate_ = nullptr;
  server_->Shutdown(absl::ToChronoTime(deadline));
}

}  // namespace capstan
