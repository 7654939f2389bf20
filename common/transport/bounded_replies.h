#ifndef COMMON_TRANSPORT_BOUNDED_REPLIES_H_
#define COMMON_TRANSPORT_BOUNDED_REPLIES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"
#include "common/transport/reply_order.h"
#include "common/wire/exchange_header.h"

namespace capstan {

// Answers the exchanges of one connection in the order of its `order`. Its replies hold at most
// `max_bytes`, or one reply that is larger, whatever the peer does. Values that do not fit are not
// kept: they are pulled again when there is room. Each exchange that waits counts kOverheadBytes
// more. Traces get the phases "reply queue" and "reply send". Thread-safe.
class BoundedReplies {
 public:
  // The connection, which owns its BoundedReplies and is owned by shared_ptr: it lives until each
  // of its exchanges has been answered.
  class Sender : public std::enable_shared_from_this<Sender> {
   public:
    virtual ~Sender() = default;
    // Sends a reply, after those before it. Released(bytes) follows, on any thread, perhaps within
    // this call. `delivered` runs once the peer has the values. Neither is needed after Close.
    virtual void SendReply(uint64_t request_id, ExchangeReply reply, uint64_t bytes,
                           absl::AnyInvocable<void()> delivered) = 0;
  };

  // What a reply counts beside its values and its error's message.
  static constexpr uint64_t kOverheadBytes = 256;

  // `endpoint` outlives every Exchange and every call of Released.
  BoundedReplies(ParameterEndpoint* endpoint, uint64_t max_bytes, ReplyOrder order, Sender* sender);

  // Each is answered by one SendReply, unless Close comes before. `delivered` runs once, on any
  // thread, when the endpoint has taken the gradient.
  void Exchange(RequestFrame&& frame, ParameterEndpoint::DeliveredCallback delivered);

  // Sends a reply without values to a request that is no exchange.
  void SendError(uint64_t request_id, ExchangeReply reply);

  // False while replies wait, or hold so much memory that no request should be taken. Released
  // changes it.
  bool MayTakeRequests() const { return may_take_requests_; }

  // A reply that counted `bytes` holds no memory any more. May ask the endpoint, and send.
  void Released(uint64_t bytes);

  // The peer is gone: nothing is asked for again, and nothing sent.
  void Close();

  uint64_t held_bytes() const;

 private:
  // A pull, and what is to be told with its values.
  struct Pull {
    uint64_t request_id = 0;
    ExchangeRequest request;             // PullAlone of what was asked
    bool is_again = false;               // its values did not fit before
    uint64_t learning_rate_divisor = 0;  // of the push that came with it, if it is_again
    std::shared_ptr<Sender> sender;      // lives until the pull is answered
  };

  void Ask(ExchangeRequest&& request, std::unique_ptr<Pull> pull,
           ParameterEndpoint::DeliveredCallback delivered);
  void OnReply(std::unique_ptr<Pull> pull, ExchangeReply&& reply);
  // `delivered` as of SendReply.
  void SendTraced(uint64_t request_id, ExchangeReply&& reply, uint64_t bytes,
                  absl::AnyInvocable<void()> delivered);
  // Whether a reply that counts `bytes` may be sent now, if it is its turn.
  bool FitsLocked(uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Runs after each change of the replies that wait or are being sent.
  void NoteChangeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  ParameterEndpoint* const endpoint_;
  const uint64_t max_bytes_;
  const ReplyOrder order_;
  Sender& sender_;
  Scheduler scheduler_;  // of values
  std::atomic<bool> may_take_requests_ = true;

  mutable Mutex mu_;
  uint64_t sending_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // The pulls whose values did not fit, with what their replies count.
  std::unique_ptr<TransferQueue> waiting_ ABSL_GUARDED_BY(mu_) ABSL_PT_GUARDED_BY(mu_);
  uint64_t waiting_count_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_asking_ ABSL_GUARDED_BY(mu_) = false;  // a call of Released asks for what waits
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_BOUNDED_REPLIES_H_
