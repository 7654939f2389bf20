// A shard as the primary of its copy.

#include <utility>
#include <variant>

#include "absl/time/time.h"
#include "common/wire/exchange_header.h"
#include "server/shard/shard.h"

namespace capstan {
namespace {

// Until changes that were lost are sent again.
constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);

// Whether a copy needs to know of the exchange, which is no step.
bool ChangesState(const ExchangeRequest& request) {
  if (const auto* state = std::get_if<WorkerState>(&request.purpose)) {
    // States for one cut go with the cut.
    return state->cut == kFinalCut || state->cut == 0;
  }
  return std::holds_alternative<TableState>(request.purpose) ||
         std::holds_alternative<InitialValues>(request.purpose) ||
         std::holds_alternative<OptimizerState>(request.purpose) ||
         std::holds_alternative<Collective>(request.purpose);
}

}  // namespace

void Shard::BeginCopy(ShardId id, const CopyTarget& target, BufferPool* pool,
                      absl::AnyInvocable<void()> on_made) {
  Due due;
  {
    TurnLock lock(&mu_);
    const bool is_newest =
        target.number > ended_copy_ && (copy_ == nullptr || copy_->target().number < target.number);
    if (is_newest) EndCopyLocked(due);
    if (is_newest && end_.ok()) {
      on_made_ = std::move(on_made);
      copy_ = std::make_unique<CopySender>(target, id, pool, copy_.get());
      std::vector<Worker> workers;
      for (const auto& [worker, member] : contents_.workers) workers.push_back(member);
      copy_->Begin(workers, contents_.collectives, &contents_.slices);
      due.sends_to = copy_->BeginSending();
    }
  }
  Run(std::move(due));
  if (on_made != nullptr) on_made();
}

void Shard::EndCopy(uint64_t number) {
  Due due;
  {
    TurnLock lock(&mu_);
    ended_copy_ = std::max(ended_copy_, number);
    if (copy_ != nullptr && copy_->target().number <= number) EndCopyLocked(due);
  }
  Run(std::move(due));
}

void Shard::AfterCopy(ParameterEndpoint::ReplyCallback done) {
  Due due;
  {
    TurnLock lock(&mu_);
    due.replies.emplace_back(std::move(done), ExchangeReply());
    EndLocked(due);
  }
  Run(std::move(due));
}

void Shard::EndCopyLocked(Due& due) {
  if (copy_ == nullptr || copy_->is_given_up()) return;
  copy_->GiveUp(&due.replies);
  TakeMadeLocked(due);
}

void Shard::TakeMadeLocked(Due& due) {
  if (copy_ == nullptr || copy_->is_being_made()) return;
  due.on_made = std::exchange(on_made_, nullptr);
}

std::optional<CopyProgress> Shard::copy_progress() const {
  TurnLock lock(&mu_);
  if (copy_ == nullptr) return std::nullopt;
  return copy_->progress();
}

void Shard::LookAt(
    absl::FunctionRef<void(uint64_t sequence, const ShardContents& contents)> use) const {
  TurnLock lock(&mu_);
  const bool has_copy = copy_ != nullptr && !copy_->is_given_up();
  use(has_copy ? copy_->latest() : 0, contents_);
}

void Shard::SendChanges(uint64_t copy) {
  while (true) {
    std::optional<CopySender::Sending> sending;
    CopyTarget target;
    {
      TurnLock lock(&mu_);
      target = copy_->target();
      if (target.number != copy) return;
      sending = copy_->TakeUnsent();
    }
    if (!sending.has_value()) return;
    target.link->Send(std::move(sending->record),
                      [this, number = target.number, attempt = sending->attempt](
                          const ExchangeReply& reply) { OnAnswer(number, attempt, reply); });
  }
}

void Shard::OnAnswer(uint64_t copy, uint64_t attempt, const ExchangeReply& reply) {
  Due due;
  ReplicaLink* retries = nullptr;
  {
    TurnLock lock(&mu_);
    if (copy_->target().number != copy) return;
    if (copy_->TakeAnswer(attempt, reply, &due.replies)) retries = copy_->target().link;
    TakeMadeLocked(due);
    due.sends_to = copy_->BeginSending();
  }
  if (retries != nullptr) {
    retries->RunAfter(kRetryDelay, [this, copy] {
      Due again;
      {
        TurnLock lock(&mu_);
        if (copy_->target().number != copy) return;
        copy_->Retry();
        again.sends_to = copy_->BeginSending();
      }
      Run(std::move(again));
    });
  }
  Run(std::move(due));
}

void Shard::NoteProgressLocked(WorkerId worker, Step next, ReleasedReplies* released) {
  if (copy_ != nullptr) copy_->NoteProgress(worker, next);
  contents_.collectives.NoteProgress(worker, next, released);
}

void Shard::NoteExchangeLocked(const ExchangeRequest& request) {
  if (copy_ != nullptr && ChangesState(request)) copy_->NoteExchange(request);
}

}  // namespace capstan
