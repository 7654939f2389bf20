#include "common/transport/bounded_replies.h"

#include <utility>

#include "absl/status/status.h"
#include "common/scheduler/transfer_queue.h"
#include "common/trace/exchange_trace.h"

namespace capstan {
namespace {

// INVALID_ARGUMENT: no peer of this role sends such a request.
absl::Status CheckRole(const ExchangeRequest& request, SenderRole role) {
  if (SenderRoleOf(request) == role) return absl::OkStatus();
  switch (role) {
    case SenderRole::kWorker:
      return absl::InvalidArgumentError(
          "expected a request of a worker, got a record of a shard: servers alone send records, by "
          "ReplicaService");
    case SenderRole::kServer:
      return absl::InvalidArgumentError(
          "expected a record of a shard, got a request of a worker: workers send theirs by "
          "ParameterService");
  }
  return absl::InternalError("a sender without a role");
}

}  // namespace

BoundedReplies::BoundedReplies(ParameterEndpoint* endpoint, uint64_t max_bytes, ReplyOrder order,
                               Sender* sender, SenderRole role)
    : endpoint_(endpoint),
      max_bytes_(max_bytes),
      order_(std::move(order)),
      sender_(*sender),
      role_(role),
      scheduler_(order_.credit_bytes, order_.make_queue()),
      waiting_(order_.make_queue()) {}

BoundedReplies::~BoundedReplies() {
  MutexLock lock(&mu_);
  if (order_.memory != nullptr) order_.memory->Add(-static_cast<int64_t>(noted_bytes_));
}

void BoundedReplies::Exchange(RequestFrame&& frame, ParameterEndpoint::DeliveredCallback taken) {
  absl::Status status = frame.request.status();
  if (status.ok()) status = CheckRole(*frame.request, role_);
  if (!status.ok()) {
    taken();
    return SendError(frame.request_id, ErrorReply(std::move(status)));
  }
  std::unique_ptr<Pull> pull(
      new Pull{frame.request_id, PullAlone(*frame.request), sender_.shared_from_this()});
  Ask(*std::move(frame.request), std::move(pull), std::move(taken));
}

void BoundedReplies::Ask(ExchangeRequest&& request, std::unique_ptr<Pull> pull,
                         ParameterEndpoint::DeliveredCallback taken) {
  endpoint_->Exchange(std::move(request), std::move(taken),
                      [this, pull = std::move(pull)](ExchangeReply reply) mutable {
                        // The pull keeps the sender alive. The sender owns this object.
                        const std::shared_ptr<Sender> sender = pull->sender;
                        OnReply(std::move(pull), std::move(reply));
                      });
}

void BoundedReplies::OnReply(std::unique_ptr<Pull> pull, ExchangeReply&& reply) {
  if (pull->is_again) {
    reply.learning_rate_divisor = pull->learning_rate_divisor;
    // The keys of the pull are gone. The client sends the request with them again.
    if (absl::IsNotFound(reply.status)) {
      reply.status = absl::UnavailableError(reply.status.message());
    }
  }
  const uint64_t request_id = pull->request_id;
  const uint64_t value_bytes = reply.values.size_bytes();
  const uint64_t bytes = kOverheadBytes + value_bytes + reply.status.message().size();
  const int layer = value_bytes == 0 ? 0 : order_.layer_of(pull->request.slice.table);
  {
    MutexLock lock(&mu_);
    if (is_closed_) return;
    // Waiting pulls go first. Otherwise large values might never fit, because of small ones.
    const bool is_its_turn = pull->is_again || waiting_->is_empty();
    if (value_bytes > 0 && !(is_its_turn && FitsLocked(bytes))) {
      pull->is_again = true;
      pull->sender = nullptr;  // The sender owns the queue: avoids a cycle.
      pull->learning_rate_divisor = reply.learning_rate_divisor;
      waiting_->Push({layer, bytes,
                      [this, pull = std::move(pull)](absl::AnyInvocable<void()> credited) mutable {
                        pull->sender = sender_.shared_from_this();
                        ExchangeRequest request = pull->request;
                        Ask(std::move(request), std::move(pull), std::move(credited));
                      }});
      ++waiting_count_;
      NoteChangeLocked();
      reply.trace.End();  // The next pull has its own trace.
      return;
    }
    sending_bytes_ += bytes;
    NoteChangeLocked();
  }
  if (value_bytes == 0) {
    reply.trace.End();
    return sender_.SendReply(request_id, std::move(reply), bytes, [] {});
  }
  reply.trace.Begin("reply queue");
  if (order_.credit_now) scheduler_.SetCredit(order_.credit_now());
  if (scheduler_.TryStart(value_bytes)) {
    return SendTraced(request_id, std::move(reply), bytes,
                      [this, value_bytes] { scheduler_.ReturnCredit(value_bytes); });
  }
  scheduler_.Submit({layer, value_bytes,
                     [this, request_id, bytes,
                      reply = std::move(reply)](absl::AnyInvocable<void()> credited) mutable {
                       SendTraced(request_id, std::move(reply), bytes, std::move(credited));
                     }});
}

void BoundedReplies::SendTraced(uint64_t request_id, ExchangeReply&& reply, uint64_t bytes,
                                absl::AnyInvocable<void()> delivered) {
  const ExchangeTrace trace = std::exchange(reply.trace, ExchangeTrace());
  trace.Begin("reply send");
  sender_.SendReply(request_id, std::move(reply), bytes, trace.EndBefore(std::move(delivered)));
}

void BoundedReplies::SendError(uint64_t request_id, ExchangeReply reply) {
  auto none = std::make_unique<Pull>();
  none->request_id = request_id;
  OnReply(std::move(none), std::move(reply));
}

bool BoundedReplies::FitsLocked(uint64_t bytes) const {
  // Otherwise a reply larger than the bound would never be sent.
  return sending_bytes_ == 0 || sending_bytes_ + bytes <= max_bytes_;
}

void BoundedReplies::NoteChangeLocked() {
  const bool may = waiting_->is_empty() && sending_bytes_ < max_bytes_;
  // Other threads read it: a write costs more than a comparison.
  if (may != may_take_requests_) may_take_requests_ = may;
  if (order_.memory == nullptr) return;
  const uint64_t held = HeldBytesLocked();
  order_.memory->Add(static_cast<int64_t>(held - noted_bytes_));
  noted_bytes_ = held;
}

void BoundedReplies::Released(uint64_t bytes) {
  mu_.Lock();
  sending_bytes_ -= bytes;
  // If a call is in the loop below, it sees the change. So SendReply may call Released without a
  // recursion.
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
  return HeldBytesLocked();
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
