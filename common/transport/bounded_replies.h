#ifndef COMMON_TRANSPORT_BOUNDED_REPLIES_H_
#define COMMON_TRANSPORT_BOUNDED_REPLIES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "common/base/mutex.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"
#include "common/transport/frame_header.h"
#include "common/transport/parameter_endpoint.h"
#include "common/transport/reply_order.h"

namespace capstan {

// Answers the exchanges of one connection in the order of its `order`, while its replies hold at
// most `max_bytes`, whatever the peer does. Values that do not fit are not kept: they are pulled
// again when there is room. What waits is then at most max_bytes, or one reply that is larger; and
// kOverhead for each pull that the shards had parked, two for each slice, and of the requests that
// came in one message. Traces of replies get the
// phases "reply queue" and "reply send", until the peer has the values. Thread-safe; owned by
// shared_ptr.
class BoundedReplies : public std::enable_shared_from_this<BoundedReplies> {
 public:
  // What a reply counts beside its values and its error's message.
  static constexpr uint64_t kOverheadBytes = 256;

  // `endpoint` outlives every Exchange and every call of Sent.
  BoundedReplies(ParameterEndpoint* endpoint, uint64_t max_bytes, ReplyOrder order);
  virtual ~BoundedReplies() = default;

  // Each is answered by one SendReply, unless Close comes before. `taken` runs once, on any thread,
  // when the gradient no longer queues at the endpoint.
  void Exchange(RequestFrame&& frame, ParameterEndpoint::SentCallback taken);

  // False while replies wait or hold so much that no request should be taken; changes by Sent.
  bool MayTakeRequests() const { return may_take_requests_; }

  // A reply that counted `bytes` holds no memory any more. May ask the endpoint, and send.
  void Sent(uint64_t bytes);

  // The peer is gone: nothing is asked for again, and nothing sent.
  void Close();

  uint64_t held_bytes() const;

 protected:
  // Sends a reply, after those before it. Sent(bytes) follows, on any thread, also within the call;
  // and `received` runs once its values are no longer on their way. Neither needs to after Close.
  virtual void SendReply(uint64_t request_id, ExchangeReply reply, uint64_t bytes,
                         absl::AnyInvocable<void()> received) = 0;
  // A reply without values, of what is no exchange.
  void SendError(uint64_t request_id, ExchangeReply reply);

 private:
  struct Pull;

  // `is_again`: its values did not fit before.
  void Ask(uint64_t request_id, const Pull& pull, ExchangeRequest&& request,
           ParameterEndpoint::SentCallback taken, bool is_again);
  void OnReply(uint64_t request_id, const Pull& pull, bool is_again, ExchangeReply&& reply);
  // `received` as of SendReply.
  void SendTraced(uint64_t request_id, ExchangeReply&& reply, uint64_t bytes,
                  absl::AnyInvocable<void()> received);
  // Whether a reply that counts `bytes` may be sent now, if it is its turn.
  bool FitsLocked(uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // After each change of what waits and what is being sent.
  void NoteChangeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  ParameterEndpoint* const endpoint_;
  const uint64_t max_bytes_;
  const ReplyOrder order_;
  Scheduler scheduler_;  // of values
  std::atomic<bool> may_take_requests_ = true;

  mutable Mutex mu_;
  uint64_t sending_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // The pull halves of exchanges whose values did not fit, by what their replies count.
  std::unique_ptr<TransferQueue> waiting_ ABSL_GUARDED_BY(mu_) ABSL_PT_GUARDED_BY(mu_);
  uint64_t waiting_count_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_asking_ ABSL_GUARDED_BY(mu_) = false;  // a call of Sent asks for what waits
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_BOUNDED_REPLIES_H_
