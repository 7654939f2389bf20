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

// The UCX skin of an endpoint: payloads arrive in buffers that the shards keep as they are, and
// values leave from where they lie. Exchanges run on the UCX thread. Memory is bounded by the
// server, whatever workers do: of each connection there are the requests that it has granted, as
// UcxConnection says, and the replies that BoundedReplies allows; it grants no more while a worker
// does not take its replies. It opens no port, and reads no address that a peer sent: a worker that
// knows the secret of its invitation is answered where its greeting comes from.
class UcxListener : public UcxTransport::Listener {
 public:
  // `endpoint`, `thread`, which UcxConnection has prepared, and `clock` outlive the listener. Each
  // connection has `max_inflight_bytes` for requests that arrive, and as much for replies.
  UcxListener(ParameterEndpoint* endpoint, UcxThread* thread, Clock* clock,
              uint64_t max_inflight_bytes, const ReplyOrder& order)
      : endpoint_(endpoint),
        thread_(thread),
        clock_(clock),
        max_inflight_bytes_(max_inflight_bytes),
        order_(order) {}
  // Closes all connections; replies that come later go nowhere.
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
