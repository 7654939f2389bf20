#include "worker/client/connect_to_servers.h"

#include <glog/logging.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/log_format.h"
#include "common/transport/grpc/grpc_endpoint.h"
#include "common/transport/ucx/ucx_transport.h"

namespace capstan {
namespace {

// A transport that has not started: answers every exchange with the reason. It is not tried again,
// so the error is one after which nobody sends again.
class FailedConnection : public ParameterEndpoint {
 public:
  explicit FailedConnection(const absl::Status& status)
      : status_(absl::UnimplementedError(status.message())) {}

  void Exchange(ExchangeRequest&& /*request*/, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    done(ErrorReply(status_));
  }

 private:
  const absl::Status status_;
};

std::vector<std::unique_ptr<ParameterEndpoint>> ConnectOverGrpc(const ConnectOptions& options,
                                                                const std::string& address) {
  std::vector<std::unique_ptr<ParameterEndpoint>> connections;
  if (options.transport.type() == v1::TransportSpec::UCX) return connections;
  for (uint32_t i = 0; i < options.transport.grpc_connections(); ++i) {
    connections.push_back(
        std::make_unique<GrpcEndpoint>(address, options.clock, options.member.security));
  }
  return connections;
}

}  // namespace

std::string TransportsUsed::Text() const {
  const char* const grpc = grpc_ ? "grpc" : "";
  if (!ucx_) return grpc;
  return grpc_ ? "ucx and grpc" : "ucx";
}

ServerConnection::ServerConnection(std::shared_ptr<const void> transport,
                                   std::unique_ptr<ParameterEndpoint> ucx,
                                   std::vector<std::unique_ptr<ParameterEndpoint>> grpc,
                                   std::shared_ptr<TransportsUsed> used)
    : used_(std::move(used)),
      transport_(std::move(transport)),
      grpc_(std::move(grpc)),
      uses_grpc_(ucx == nullptr),
      ucx_(std::move(ucx)) {}

void ServerConnection::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                                ReplyCallback done) {
  if (uses_grpc_) {
    used_->NoteGrpc();
    ParameterEndpoint& connection = *grpc_[ConnectionOf(request.slice, grpc_.size())];
    return connection.Exchange(std::move(request), std::move(delivered), std::move(done));
  }
  if (grpc_.empty()) {
    used_->NoteUcx();
    return ucx_->Exchange(std::move(request), std::move(delivered), std::move(done));
  }
  ucx_->Exchange(std::move(request), std::move(delivered),
                 [this, done = std::move(done)](ExchangeReply reply) mutable {
                   if (absl::IsUnimplemented(reply.status)) {
                     UseGrpc(reply);
                   } else {
                     used_->NoteUcx();
                   }
                   done(std::move(reply));
                 });
}

void ServerConnection::UseGrpc(ExchangeReply& reply) {
  if (!uses_grpc_.exchange(true)) {
    const LogDetails details{std::string(reply.status.message())};
    LOG(WARNING) << "exchanges go over gRPC: " << reply.status.message();
  }
  reply.status = absl::UnavailableError(reply.status.message());
}

size_t ConnectionOf(SliceKey slice, size_t connections) {
  // Fibonacci hashing: consecutive multiples of the golden ratio modulo 1 are spread evenly. So is
  // every n-th multiple for most n. A Fibonacci number n is the worst: with 13 servers and 8 slices
  // each, all slices of a server may share one connection.
  const uint32_t key = slice.table.value() + slice.slice.value();
  const uint64_t fraction = key * 0x9e3779b9u;  // in units of 2^-32
  return static_cast<size_t>(fraction * connections >> 32);
}

ServerConnector ConnectToServers(const ConnectOptions& options) {
  using Ucx = absl::StatusOr<std::shared_ptr<UcxTransport>>;
  const auto ucx = std::make_shared<std::optional<Ucx>>();  // none until the first connection
  return [=](const std::string& address) -> std::unique_ptr<ParameterEndpoint> {
    if (!ucx->has_value()) {
      *ucx = Ucx(StartUcxTransportOfJob(options.transport, options.clock, options.on_ucx_blocked,
                                        options.member));
    }
    const Ucx& started = **ucx;
    if (!started.ok()) return std::make_unique<FailedConnection>(started.status());
    const std::shared_ptr<UcxTransport>& shared = *started;
    return std::make_unique<ServerConnection>(
        shared, shared == nullptr ? nullptr : shared->Connect(address),
        ConnectOverGrpc(options, address), options.used);
  };
}

}  // namespace capstan
