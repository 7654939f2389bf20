#include "common/transport/bounded_replies.h"

#include <optional>
#include <utility>

#include "common/scheduler/transfer.h"
#include "common/trace/exchange_trace.h"

namespace capstan {

// What is left of a request once its push has been applied: the shard has the gradient.
struct BoundedReplies::Pull {
  uint64_t job = 0;
  WorkerId worker;
  Incarnation incarnation;
  Epoch epoch;
  SliceKey slice;
  std::optional<Step> pull_step;
  uint64_t learning_rate_divisor = 0;  // of the push, once it has been applied

  static Pull Of(const ExchangeRequest& request) {
    return {request.job,   request.worker,    request.incarnation,        request.epoch,
            request.slice, request.pull_step, /*learning_rate_divisor=*/0};
  }
  ExchangeRequest ToRequest() const {
    ExchangeRequest request;
    request.job = job;
    request.worker = worker;
    request.incarnation = incarnation;
    request.epoch = epoch;
    request.slice = slice;
    request.pull_step = pull_step;
    return request;
  }
};

BoundedReplies::BoundedReplies(ParameterEndpoint* endpoint, uint64_t max_bytes, ReplyOrder order)
    : endpoint_(endpoint),
      max_bytes_(max_bytes),
      order_(std::move(order)),
      scheduler_(order_.credit_bytes, order_.make_queue()),
      waiting_(order_.make_queue()) {}

void BoundedReplies::Exchange(RequestFrame&& frame, ParameterEndpoint::SentCallback taken) {
  const Pull pull = Pull::Of(frame.request);
  Ask(frame.request_id, pull, std::move(frame.request), std::move(taken), /*is_again=*/false);
}

void BoundedReplies::Ask(uint64_t request_id, const Pull& pull, ExchangeRequest&& request,
                         ParameterEndpoint::SentCallback taken, bool is_again) {
  endpoint_->Exchange(std::move(request), std::move(taken),
                      [self = shared_from_this(), request_id, is_again, pull](ExchangeReply reply) {
                        self->OnReply(request_id, pull, is_again, std::move(reply));
                      });
}

void BoundedReplies::OnReply(uint64_t request_id, const Pull& pull, bool is_again,
                             ExchangeReply&& reply) {
  if (is_again) reply.learning_rate_divisor = pull.learning_rate_divisor;
  const uint64_t value_bytes = reply.values.size_bytes();
  const uint64_t bytes = kOverheadBytes + value_bytes + reply.status.message().size();
  const int layer = value_bytes == 0 ? 0 : order_.layer_of(pull.slice.table);
  {
    MutexLock lock(&mu_);
    if (is_closed_) return;
    // What waits goes first, else small values would keep large ones from ever fitting.
    const bool is_its_turn = is_again || waiting_->is_empty();
    if (!reply.values.empty() && !(is_its_turn && FitsLocked(bytes))) {
      Pull again = pull;
      again.learning_rate_divisor = reply.learning_rate_divisor;
      waiting_->Push({layer, bytes, [this, request_id, again](absl::AnyInvocable<void()> taken) {
                        Ask(request_id, again, again.ToRequest(), std::move(taken),
                            /*is_again=*/true);
                      }});
      ++waiting_count_;
      NoteChangeLocked();
      reply.trace.End();  // What is asked for again has one of its own.
      return;
    }
    sending_bytes_ += bytes;
    NoteChangeLocked();
  }
  if (value_bytes == 0) {
    reply.trace.End();
    return SendReply(request_id, std::move(reply), bytes, [] {});
  }
  reply.trace.Begin("reply queue");
  if (order_.credit_now) scheduler_.SetCredit(order_.credit_now());
  if (scheduler_.TryStart(value_bytes)) {
    return SendTraced(request_id, std::move(reply), bytes,
                      [this, value_bytes] { scheduler_.OnSent(value_bytes); });
  }
  scheduler_.Submit({layer, value_bytes,
                     [this, request_id, bytes,
                      reply = std::move(reply)](absl::AnyInvocable<void()> received) mutable {
                       SendTraced(request_id, std::move(reply), bytes, std::move(received));
                     }});
}

void BoundedReplies::SendTraced(uint64_t request_id, ExchangeReply&& reply, uint64_t bytes,
                                absl::AnyInvocable<void()> received) {
  const ExchangeTrace trace = std::exchange(reply.trace, ExchangeTrace());
  trace.Begin("reply send");
  SendReply(request_id, std::move(reply), bytes, trace.EndBefore(std::move(received)));
}

void BoundedReplies::SendError(uint64_t request_id, ExchangeReply reply) {
  OnReply(request_id, Pull(), /*is_again=*/false, std::move(reply));
}

bool BoundedReplies::FitsLocked(uint64_t bytes) const {
  // Else what is larger than the bound would never be sent.
  return sending_bytes_ == 0 || sending_bytes_ + bytes <= max_bytes_;
}

void BoundedReplies::NoteChangeLocked() {
  const bool may = waiting_->is_empty() && sending_bytes_ < max_bytes_;
  // To write what other threads read costs more than to look.
  if (may != may_take_requests_) may_take_requests_ = may;
}

void BoundedReplies::Sent(uint64_t bytes) {
  mu_.Lock();
  sending_bytes_ -= bytes;
  // The call that asks already sees what has changed; and replies that are sent at once do not
  // make calls within calls.
  if (!is_asking_) {
    is_asking_ = true;
    while (!waiting_->is_empty() && FitsLocked(waiting_->Next().bytes)) {
      Transfer next = waiting_->Pop();
      --waiting_count_;
      mu_.Unlock();
      next.start([] {});
      mu_.Lock();
    }
    is_asking_ = false;
  }
  NoteChangeLocked();
  mu_.Unlock();
}

uint64_t BoundedReplies::held_bytes() const {
  MutexLock lock(&mu_);
  return sending_bytes_ + waiting_count_ * kOverheadBytes;
}

void BoundedReplies::Close() {
  std::unique_ptr<TransferQueue> dropped = order_.make_queue();
  {
    MutexLock lock(&mu_);
    is_closed_ = true;
    dropped.swap(waiting_);
    waiting_count_ = 0;
    NoteChangeLocked();
  }
  scheduler_.Close();
}

}  // namespace capstan
