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

// Answers the exchanges of one connection in the order of `order`. Its replies hold at most
// `max_bytes` of memory, or one larger reply, whatever the peer does. Values beyond the bound are
// dropped, and pulled again once there is room. Meanwhile their exchange holds kOverheadBytes on
// top of the bound. Adds the phases "reply queue" and "reply send" to traces. Thread-safe.
class BoundedReplies {
 public:
  // The connection. Owns its BoundedReplies. A shared_ptr keeps it alive until all its exchanges
  // are answered.
  class Sender : public std::enable_shared_from_this<Sender> {
   public:
    virtual ~Sender() = default;
    // Sends replies in the order of the calls. Must call Released(bytes) once the reply's memory is
    // free, on any thread, perhaps within this call. Must run `delivered` once the peer has the
    // values. After Close neither is needed.
    virtual void SendReply(uint64_t request_id, ExchangeReply reply, uint64_t bytes,
                           absl::AnyInvocable<void()> delivered) = 0;
  };

  // Added to the sizes of a reply's values and error message.
  static constexpr uint64_t kOverheadBytes = 256;

  // `endpoint` outlives every Exchange and every call of Released. It gets no request of another
  // role than the peer's, `role`: that is answered INVALID_ARGUMENT.
  BoundedReplies(ParameterEndpoint* endpoint, uint64_t max_bytes, ReplyOrder order, Sender* sender,
                 SenderRole role = SenderRole::kWorker);
  ~BoundedReplies();
  BoundedReplies(const BoundedReplies&) = delete;
  BoundedReplies& operator=(const BoundedReplies&) = delete;

  // Answers with one SendReply, unless Close comes first. `taken` runs once, on any thread, when
  // the endpoint has taken the gradient.
  void Exchange(RequestFrame&& frame, ParameterEndpoint::DeliveredCallback taken);

  // Answers a malformed request. The reply has no values.
  void SendError(uint64_t request_id, ExchangeReply reply);

  // False while replies wait or fill `max_bytes`: the connection should read no more requests then.
  // Released makes it true again.
  bool MayTakeRequests() const { return may_take_requests_; }

  // The memory of a reply of `bytes` is free. May call the endpoint and SendReply. The caller keeps
  // the Sender alive during the call.
  void Released(uint64_t bytes);

  // The peer is gone: drops waiting exchanges, and all later replies.
  void Close();

  uint64_t held_bytes() const;

 private:
  // A pull, and facts for its reply.
  struct Pull {
    uint64_t request_id = 0;
    ExchangeRequest request = {};              // PullAlone of the exchange
    std::shared_ptr<Sender> sender = nullptr;  // lives until the pull is answered
    bool is_again = false;                     // its values did not fit before
    uint64_t learning_rate_divisor = 0;        // of the exchange's push, if is_again
  };

  void Ask(ExchangeRequest&& request, std::unique_ptr<Pull> pull,
           ParameterEndpoint::DeliveredCallback taken);
  void OnReply(std::unique_ptr<Pull> pull, ExchangeReply&& reply);
  // `delivered`: as in SendReply.
  void SendTraced(uint64_t request_id, ExchangeReply&& reply, uint64_t bytes,
                  absl::AnyInvocable<void()> delivered);
  // True if a reply of `bytes` fits into `max_bytes` now.
  bool FitsLocked(uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t HeldBytesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return sending_bytes_ + waiting_count_ * kOverheadBytes;
  }
  // Must follow each change of `sending_bytes_` or `waiting_`.
  void NoteChangeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  ParameterEndpoint* const endpoint_;
  const uint64_t max_bytes_;
  const ReplyOrder order_;
  Sender& sender_;
  const SenderRole role_;
  Scheduler scheduler_;  // starts the sending of values, within the credit
  std::atomic<bool> may_take_requests_ = true;

  mutable Mutex mu_;
  uint64_t sending_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // Pulls of values that did not fit. Each transfer has the size of its reply.
  std::unique_ptr<TransferQueue> waiting_ ABSL_GUARDED_BY(mu_) ABSL_PT_GUARDED_BY(mu_);
  uint64_t waiting_count_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t noted_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // the part of order_.memory that is of this
  bool is_asking_ ABSL_GUARDED_BY(mu_) = false;    // a call of Released is starting pulls
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_BOUNDED_REPLIES_H_
