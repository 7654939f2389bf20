#ifndef COMMON_TRANSPORT_UCX_UCX_LISTENER_H_
#define COMMON_TRANSPORT_UCX_UCX_LISTENER_H_

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "common/base/clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/tensor/buffer_pool.h"
#include "common/transport/reply_order.h"
#include "common/transport/ucx/ucx_thread.h"
#include "common/transport/ucx/ucx_transport.h"

namespace capstan {

// Serves an endpoint over UCX, on the UCX thread. Shards keep the receive buffers of gradients, and
// values are sent from the shards' memory. Whatever workers do, the server bounds the memory of
// each connection: the granted requests (UcxWindow) and the replies of BoundedReplies. While a
// worker does not take its replies, it gets no grants. Opens no port, and uses no address from a
// peer: replies go back to the sender of a greeting with the secret of an invitation.
class UcxListener : public UcxTransport::Listener {
 public:
  // `endpoint`, `thread` and `clock` outlive the listener. UcxConnection::Prepare has prepared
  // `thread`. Each connection has `max_inflight_bytes` for arriving requests, and as much for
  // replies.
  UcxListener(ParameterEndpoint* endpoint, UcxThread* thread, Clock* clock,
              uint64_t max_inflight_bytes, const ReplyOrder& order)
      : endpoint_(endpoint),
        thread_(thread),
        clock_(clock),
        max_inflight_bytes_(max_inflight_bytes),
        order_(order) {}
  // Closes all connections. Later replies are dropped.
  ~UcxListener() override;

  void Invite(std::shared_ptr<UcxTransport::Guest> guest) override;
  void End(UcxTransport::Guest* guest) override;
  void EndAll() override;

 private:
  class Client;

  ParameterEndpoint* const endpoint_;
  UcxThread* const thread_;
  Clock* const clock_;
  const uint64_t max_inflight_bytes_;
  const ReplyOrder order_;
  BufferPool buffers_;

  // Used by the thread alone:
  absl::flat_hash_map<UcxTransport::Guest*, std::shared_ptr<Client>> clients_;
  bool is_ended_ = false;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_LISTENER_H_
