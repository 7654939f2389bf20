#include "common/membership/retrying_coordinator.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);
constexpr absl::Duration kLastBackoff = absl::Seconds(1);

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
  inner_->Call(call->request, [this, call, sent_at](absl::StatusOr<CoordinatorReply> reply) {
    if (absl::IsUnavailable(reply.status())) {
      NoteError(reply.status());
      return TryAgain(call, sent_at);
    }
    if (reply.ok()) NoteAnswer(*reply);
    call->Answer(std::move(reply));
  });
}

void RetryingCoordinator::TryAgain(std::shared_ptr<OpenCall> call, absl::Time sent_at) {
  if (!std::exchange(call->has_failed, true)) {
    LimitTime(call, std::min(clock_.Now(), sent_at + call->parked_at_most));
  }
  const absl::Duration pause = PauseOf(call->backoff);
  call->backoff = std::min(2 * call->backoff, kLastBackoff);
  later_.RunAfter(pause, [this, call = std::move(call)](bool is_due) {
    if (is_due) return Send(call);
    call->Answer(absl::CancelledError("this process is shutting down"));
  });
}

void RetryingCoordinator::LimitTime(std::shared_ptr<OpenCall> call, absl::Time due) {
  const absl::Duration deadline = Deadline();
  auto give_up = [this, call = std::move(call), deadline] {
    if (call->is_answered) return;
    has_given_up_ = true;
    std::string last_error;
    {
      MutexLock lock(&mu_);
      last_error = last_error_;
    }
    call->Answer(absl::UnavailableError(absl::StrCat(
        "coordinator ", options_.address, " has been unreachable for ",
        absl::ToDoubleSeconds(deadline), " s; check that it runs and that --coordinator is right",
        last_error.empty() ? "" : absl::StrCat(". Last error: ", last_error))));
  };
  const absl::Duration left = due + deadline - clock_.Now();
  if (has_given_up_ || left <= absl::ZeroDuration()) return give_up();
  later_.RunAfter(left, [give_up = std::move(give_up)](bool is_due) {
    if (is_due) give_up();
  });
}

absl::Duration RetryingCoordinator::Deadline() const {
  if (has_answered_) return options_.rpc_deadline;
  return std::max(options_.rpc_deadline, options_.first_deadline);
}

void RetryingCoordinator::NoteAnswer(const CoordinatorReply& reply) {
  has_answered_ = true;
  has_given_up_ = false;
  const auto* const job = std::get_if<v1::GetJobReply>(&reply);
  if (job == nullptr) return;
  MutexLock lock(&mu_);
  heartbeat_interval_ = absl::Seconds(job->job().membership().heartbeat_seconds());
}

void RetryingCoordinator::NoteError(const absl::Status& error) {
  MutexLock lock(&mu_);
  last_error_ = std::string(error.message());
}

absl::Duration RetryingCoordinator::PauseOf(absl::Duration backoff) {
  MutexLock lock(&mu_);
  return backoff * (1.0 - 0.5 * jitter_.UniformFloat());
}

}  // namespace capstan
