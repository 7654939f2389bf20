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
#include "proto/job.pb.h"

namespace capstan {

// Connects a worker to the server at an address, host:port.
using ServerConnector =
    std::function<std::unique_ptr<ParameterEndpoint>(const std::string& address)>;

// Connects over what `transport`, of a valid job, names. With UCX, all connections share one
// UcxTransport, which starts with the first of them. With AUTO, exchanges go over UCX unless it
// cannot start here or cannot connect the two ends; then over gRPC. A connection that cannot be
// made answers every exchange with the reason. `clock` outlives the connections. `on_ucx_blocked`
// is UcxTransport::Options::on_blocked. The connector is not thread-safe.
ServerConnector ConnectToServers(const v1::TransportSpec& transport, Clock* clock,
                                 std::function<void(const absl::Status&)> on_ucx_blocked);

// All connections of a worker to one server as one. Uses UCX, if there is any, until that answers
// UNIMPLEMENTED; then gRPC, if there is any. That answer becomes UNAVAILABLE, so that the exchange
// is sent again. Thread-safe.
class ServerConnection : public ParameterEndpoint {
 public:
  // `ucx` may be null, or `grpc` empty; not both. `transport` is kept alive for `ucx`.
  ServerConnection(std::shared_ptr<const void> transport, std::unique_ptr<ParameterEndpoint> ucx,
                   std::vector<std::unique_ptr<ParameterEndpoint>> grpc);

  void Exchange(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done) override;

 private:
  void UseGrpc(ExchangeReply& reply);

  const std::shared_ptr<const void> transport_;
  const std::vector<std::unique_ptr<ParameterEndpoint>> grpc_;
  std::atomic<bool> uses_grpc_;
  std::unique_ptr<ParameterEndpoint> ucx_;  // Ends first: that answers what is open.
};

// Which of `connections` to a server carries a slice's exchanges, so that they stay in order.
// Slices that follow each other at a server, whichever they are, share all connections about
// evenly.
size_t ConnectionOf(SliceKey slice, size_t connections);

}  // namespace capstan

#endif  // WORKER_CLIENT_CONNECT_TO_SERVERS_H_
