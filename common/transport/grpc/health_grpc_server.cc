#include "common/transport/grpc/health_grpc_server.h"

#include <glog/logging.h>
#include <grpc/compression.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <utility>

#include "common/transport/grpc/grpc_setup.h"

namespace capstan {
namespace {

constexpr int kMaxMessageBytes = 4 << 10;
constexpr int kMaxHeaderBytes = 4 << 10;
constexpr int kReadAheadBytes = 64 << 10;
constexpr int kReadBlockBytes = 16 << 10;
constexpr int kFrameBytes = 16 << 10;
constexpr int kStreamsPerConnection = 4;
constexpr int kOnlyUncompressed = 1 << GRPC_COMPRESS_NONE;

// If a client does not answer a ping within this time, its streams end.
constexpr int kKeepaliveMilliseconds = 5000;

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

void Bound(grpc::ServerBuilder& builder, const HealthGrpcServer::Options& options) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  const std::pair<const char*, int> arguments[] = {
      {GRPC_ARG_HTTP2_BDP_PROBE, 0},
      {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kReadAheadBytes},
      {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBlockBytes},
      {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes},
      {GRPC_ARG_MAX_METADATA_SIZE, kMaxHeaderBytes},
      {GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection},
      {GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, kOnlyUncompressed},
      {GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds},
      {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMilliseconds},
      {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
      {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000},
      {GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(options.greeting_time)},
      {GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(options.idle_time)},
  };
  for (const auto& [name, value] : arguments) builder.AddChannelArgument(name, value);
}

}  // namespace

HealthGrpcServer::HealthGrpcServer(Options options)
    : clock_(options.clock), service_(options.readiness) {
  using Experimental = grpc::ServerBuilder::experimental_type;
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<OnlyRegisteredServices>());
  Bound(builder, options);
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      Experimental::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr) << "a server without a port cannot fail to start";
  thread_ = std::thread([this] { Run(); });
}

HealthGrpcServer::~HealthGrpcServer() {
  server_->Shutdown(absl::ToChronoTime(absl::UnixEpoch()));
  {
    MutexLock lock(&mu_);
    is_ending_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  MutexLock lock(&mu_);
  for (const int socket : taken_) close(socket);
}

void HealthGrpcServer::Take(int socket) {
  MutexLock lock(&mu_);
  taken_.push_back(socket);
  changed_.NotifyAll();
}

void HealthGrpcServer::TellWatchers() {
  MutexLock lock(&mu_);
  must_tell_ = true;
  changed_.NotifyAll();
}

void HealthGrpcServer::Run() {
  while (true) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    {
      MutexLock lock(&mu_);
      while (taken_.empty() && !must_tell_ && !is_ending_) {
        clock_->WaitUntil(mu_, changed_, absl::InfiniteFuture());
      }
      if (is_ending_) return;
      must_tell_ = false;
      if (!taken_.empty()) {
        connection.fd = taken_.front();
        taken_.pop_front();
      }
    }
    service_.TellWatchers();
    if (connection.fd >= 0) acceptor_->HandleNewConnection(&connection);
  }
}

}  // namespace capstan
