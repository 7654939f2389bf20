#ifndef COMMON_TRANSPORT_UCX_LISTENER_H_
#define COMMON_TRANSPORT_UCX_LISTENER_H_

#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/tensor/buffer_pool.h"
#include "common/transport/parameter_endpoint.h"
#include "common/transport/reply_order.h"
#include "common/transport/ucx_connection.h"
#include "common/transport/ucx_thread.h"
#include "common/transport/ucx_transport.h"

namespace capstan {

// The UCX skin of an endpoint: payloads arrive in buffers that the shards keep as they are, and
// values leave from where they lie. Exchanges run on the UCX thread. Memory is bounded by the
// server, whatever workers do: of each connection there are the requests that it has granted, as
// UcxConnection says, and the replies that BoundedReplies allows; it grants no more while a worker
// does not take its replies.
class UcxListener : public UcxTransport::Listener {
 public:
  // `listen` is host:port; port 0 takes a free one. `endpoint` and `thread` outlive the listener.
  // Each connection has `max_inflight_bytes` for requests that arrive, and as much for replies.
  // UNAVAILABLE when the port is in use or the host is not of this machine.
  static absl::StatusOr<std::unique_ptr<UcxListener>> Start(const std::string& listen,
                                                            ParameterEndpoint* endpoint,
                                                            UcxThread* thread,
                                                            uint64_t max_inflight_bytes,
                                                            const ReplyOrder& order);
  // Closes all connections; replies that come later go nowhere.
  ~UcxListener() override;

  const std::string& address() const override { return address_; }

 private:
  class Client;
  // What UCX knows of the listener, also once that is gone.
  struct Acceptor {
    UcxListener* listener = nullptr;  // null once it is gone: then connections are refused
    ucp_listener_h handle = nullptr;
  };

  UcxListener(ParameterEndpoint* endpoint, UcxThread* thread, uint64_t max_inflight_bytes,
              const ReplyOrder& order)
      : endpoint_(endpoint),
        thread_(thread),
        max_inflight_bytes_(max_inflight_bytes),
        order_(order) {}

  absl::Status Listen(const std::string& listen);
  static void OnConnection(ucp_conn_request_h request, void* listener);

  ParameterEndpoint* const endpoint_;
  UcxThread* const thread_;
  const uint64_t max_inflight_bytes_;
  const ReplyOrder order_;
  std::string address_;
  BufferPool buffers_;

  // Of the thread alone.
  std::shared_ptr<Acceptor> acceptor_;
  absl::flat_hash_map<Client*, std::shared_ptr<Client>> clients_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_LISTENER_H_
