#include "common/membership/retrying_coordinator.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);

// How often a call that waits looks whether this process is to end.
constexpr absl::Duration kLookInterval = absl::Milliseconds(250);

}  // namespace

RetryingCoordinator::RetryingCoordinator(Options options, Clock& clock, Random jitter,
                                         std::unique_ptr<CoordinatorEndpoint> inner)
    : options_(std::move(options)),
      clock_(clock),
      jitter_(jitter),
      heartbeat_interval_(absl::Seconds(v1::MembershipSpec().heartbeat_seconds())),
      later_(&clock),
      inner_(std::move(inner)) {}

RetryingCoordinator::~RetryingCoordinator() {
  later_.Stop();
  // Replies to open calls; the replies still use this object.
  inner_.reset();
}

void RetryingCoordinator::Call(CoordinatorRequest request, Callback<CoordinatorReply> done) {
  auto call = std::make_shared<OpenCall>();
  call->parked_at_most = ParkedAtMost(request);
  call->request = std::move(request);
  call->done = std::move(done);
  call->backoff = kFirstBackoff;
  Send(std::move(call));
}

absl::Duration RetryingCoordinator::ParkedAtMost(const CoordinatorRequest& request) {
  const bool waits_for_servers = std::holds_alternative<v1::SetConsistencyRequest>(request) ||
                                 std::holds_alternative<v1::CheckpointRequest>(request);
  if (waits_for_servers) return absl::InfiniteDuration();
  if (!std::holds_alternative<v1::HeartbeatRequest>(request)) return absl::ZeroDuration();
  MutexLock lock(&mu_);
  return heartbeat_interval_;
}

void RetryingCoordinator::Send(std::shared_ptr<OpenCall> call) {
  if (call->is_answered) return;
  const absl::Time sent_at = clock_.Now();
  {
    MutexLock lock(&mu_);
    call->reply_due = sent_at + call->parked_at_most;
  }
  inner_->Call(call->request, [this, call, sent_at](absl::StatusOr<CoordinatorReply> reply) {
    if (absl::IsUnavailable(reply.status())) {
      NoteFailure(*call, sent_at, reply.status());
      return TryAgain(call, sent_at);
    }
    if (reply.ok()) NoteAnswer(*reply);
    const bool has_answered = !absl::IsCancelled(reply.status());
    if (has_answered && options_.absence != nullptr) options_.absence->NoteAnswer();
    call->Answer(std::move(reply));
  });
}

void RetryingCoordinator::TryAgain(std::shared_ptr<OpenCall> call, absl::Time sent_at) {
  if (!std::exchange(call->has_failed, true)) {
    call->due = std::min(clock_.Now(), sent_at + call->parked_at_most);
    call->end = call->due + Deadline();
    LimitTime(call);
  }
  const absl::Duration pause = PauseOf(call->backoff);
  call->backoff = std::min(2 * call->backoff, options_.longest_pause);
  later_.RunAfter(pause, [this, call = std::move(call)](bool is_due) {
    if (is_due) return Send(call);
    call->Answer(absl::CancelledError("this process is shutting down"));
  });
}

void RetryingCoordinator::LimitTime(std::shared_ptr<OpenCall> call) {
  if (call->is_answered) return;
  const absl::Duration left = EndOf(*call) - clock_.Now();
  if (has_given_up_ || left <= absl::ZeroDuration()) return GiveUp(*call);
  const bool must_look = options_.is_ending != nullptr;
  later_.RunAfter(must_look ? std::min(left, kLookInterval) : left,
                  [this, call = std::move(call)](bool is_due) mutable {
                    if (is_due) LimitTime(std::move(call));
                  });
}

absl::Time RetryingCoordinator::EndOf(const OpenCall& call) {
  const bool is_ending = options_.is_ending != nullptr && options_.is_ending();
  const absl::Time now = clock_.Now();
  MutexLock lock(&mu_);
  if (is_ending) ending_since_ = std::min(ending_since_, now);
  const absl::Time early_end = std::max(ending_since_, call.due) + kEndPatience;
  return std::min(call.end, std::max(early_end, call.reply_due));
}

void RetryingCoordinator::GiveUp(OpenCall& call) {
  has_given_up_ = true;
  const absl::Time now = clock_.Now();
  std::string last_error;
  bool keeps_state;
  bool is_early;
  {
    MutexLock lock(&mu_);
    last_error = last_error_;
    keeps_state = patience_.has_value();
    is_early = now < call.end && now >= ending_since_;
  }
  const absl::Duration time =
      is_early ? absl::Trunc(now - call.due, kFirstBackoff) : call.end - call.due;
  call.Answer(absl::UnavailableError(
      absl::StrCat("coordinator ", options_.address, " has been unreachable for ",
                   absl::ToDoubleSeconds(time), " s",
                   is_early      ? ", and this process ends without it"
                   : keeps_state ? " (--coordinator_seconds); check that it or another one runs"
                                 : "; check that it runs",
                   is_early ? "" : " and that --coordinator is right",
                   last_error.empty() ? "" : absl::StrCat(". Last error: ", last_error))));
}

absl::Duration RetryingCoordinator::Deadline() {
  if (!has_answered_) return std::max(options_.rpc_deadline, options_.first_deadline);
  MutexLock lock(&mu_);
  return patience_.value_or(options_.rpc_deadline);
}

void RetryingCoordinator::NoteAnswer(const CoordinatorReply& reply) {
  has_answered_ = true;
  has_given_up_ = false;
  const auto* const job = std::get_if<v1::GetJobReply>(&reply);
  if (job == nullptr) return;
  const v1::MembershipSpec& membership = job->job().membership();
  const bool is_awaited = job->keeps_state() && options_.is_member;
  const absl::Duration patience =
      absl::Seconds(std::max(membership.coordinator_seconds(), membership.rpc_deadline_seconds()));
  {
    MutexLock lock(&mu_);
    heartbeat_interval_ = absl::Seconds(membership.heartbeat_seconds());
    patience_ = is_awaited ? std::optional<absl::Duration>(patience) : std::nullopt;
  }
  if (is_awaited && options_.absence != nullptr) {
    options_.absence->BeginToWait(options_.address, patience);
  }
}

void RetryingCoordinator::NoteFailure(OpenCall& call, absl::Time sent_at,
                                      const absl::Status& error) {
  const absl::Time due = std::min(clock_.Now(), sent_at + call.parked_at_most);
  {
    MutexLock lock(&mu_);
    last_error_ = std::string(error.message());
    call.reply_due = absl::InfinitePast();
  }
  if (options_.absence != nullptr) options_.absence->NoteFailure(sent_at, due);
}

absl::Duration RetryingCoordinator::PauseOf(absl::Duration backoff) {
  MutexLock lock(&mu_);
  return backoff * (1.0 - 0.5 * jitter_.UniformFloat());
}

}  // namespace capstan
