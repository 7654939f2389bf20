#ifndef WORKER_CLIENT_CONNECT_TO_SERVERS_H_
#define WORKER_CLIENT_CONNECT_TO_SERVERS_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/tensor/slicing.h"
#include "common/transport/ucx/ucx_admission.h"
#include "proto/job.pb.h"

namespace capstan {

// Connects a worker to the server at an address, host:port.
using ServerConnector =
    std::function<std::unique_ptr<ParameterEndpoint>(const std::string& address)>;

// Which transports have carried exchanges of a worker. Thread-safe.
class TransportsUsed {
 public:
  void NoteGrpc() { Note(grpc_); }
  void NoteUcx() { Note(ucx_); }
  // "grpc", "ucx" or "ucx and grpc"; empty before the first exchange.
  std::string Text() const;

 private:
  // Most calls only read: all threads of exchanges share these.
  static void Note(std::atomic<bool>& used) {
    if (!used.load(std::memory_order_relaxed)) used.store(true, std::memory_order_relaxed);
  }

  std::atomic<bool> grpc_{false};
  std::atomic<bool> ucx_{false};
};

// How a worker connects to the servers of its job.
struct ConnectOptions {
  v1::TransportSpec transport;  // of a valid job
  Clock* clock = nullptr;       // Required; outlives the connections
  // UcxTransport::Options::on_blocked.
  std::function<void(const absl::Status&)> on_ucx_blocked = [](const absl::Status&) {};
  UcxMember member = {};  // who the worker is
  // Notes what the connections use.
  std::shared_ptr<TransportsUsed> used = std::make_shared<TransportsUsed>();
};

// With UCX, all connections share one UcxTransport; the
// first connection starts it. With AUTO, exchanges use gRPC if UCX cannot start here, or cannot
// connect the two ends. A failed connection answers every exchange with the reason. The
// connector is not thread-safe.
ServerConnector ConnectToServers(const ConnectOptions& options);

// All connections of a worker to one server, as one endpoint. Uses UCX if it is given. If UCX
// answers UNIMPLEMENTED and gRPC is given too, uses gRPC from then on. This answer becomes
// UNAVAILABLE, so the exchange is tried again. Thread-safe.
class ServerConnection : public ParameterEndpoint {
 public:
  // `ucx` may be null, or `grpc` empty; not both. `transport` is kept alive for `ucx`.
  ServerConnection(std::shared_ptr<const void> transport, std::unique_ptr<ParameterEndpoint> ucx,
                   std::vector<std::unique_ptr<ParameterEndpoint>> grpc,
                   std::shared_ptr<TransportsUsed> used);

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

 private:
  void UseGrpc(ExchangeReply& reply);

  const std::shared_ptr<TransportsUsed> used_;
  const std::shared_ptr<const void> transport_;
  const std::vector<std::unique_ptr<ParameterEndpoint>> grpc_;
  std::atomic<bool> uses_grpc_;
  std::unique_ptr<ParameterEndpoint> ucx_;  // Destroyed first: it then answers open exchanges.
};

// The connection for all exchanges of a slice, from 0 to `connections` - 1. One connection keeps
// them in order. The slices of a server are spread about evenly over the connections if it has
// every slice, or every second, third or fourth one.
size_t ConnectionOf(SliceKey slice, size_t connections);

}  // namespace capstan

#endif  // WORKER_CLIENT_CONNECT_TO_SERVERS_H_
