#include "common/membership/retrying_coordinator.h"

#include <algorithm>
#include <utility>

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

template <typename Request, typename Reply>
void RetryingCoordinator::Begin(Method<Request, Reply> method, Request request,
                                Callback<Reply> done, absl::Duration parked_at_most) {
  auto call = std::make_shared<Call<Request, Reply>>();
  call->method = method;
  call->request = std::move(request);
  call->done = std::move(done);
  call->parked_at_most = parked_at_most;
  call->backoff = kFirstBackoff;
  Send(std::move(call));
}

template <typename Request, typename Reply>
void RetryingCoordinator::Send(std::shared_ptr<Call<Request, Reply>> call) {
  if (call->is_answered) return;
  const absl::Time sent_at = clock_.Now();
  ((*inner_).*(call->method))(call->request, [this, call, sent_at](absl::StatusOr<Reply> reply) {
    if (absl::IsUnavailable(reply.status())) {
      NoteError(reply.status());
      return TryAgain(call, sent_at);
    }
    if (reply.ok()) {
      has_answered_ = true;
      has_given_up_ = false;
    }
    call->Answer(std::move(reply));
  });
}

template <typename Request, typename Reply>
void RetryingCoordinator::TryAgain(std::shared_ptr<Call<Request, Reply>> call, absl::Time sent_at) {
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

template <typename Request, typename Reply>
void RetryingCoordinator::LimitTime(std::shared_ptr<Call<Request, Reply>> call, absl::Time due) {
  const absl::Duration deadline = Deadline();
  auto give_up = [this, call = std::move(call), deadline] {
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

void RetryingCoordinator::NoteError(const absl::Status& error) {
  MutexLock lock(&mu_);
  last_error_ = std::string(error.message());
}

absl::Duration RetryingCoordinator::PauseOf(absl::Duration backoff) {
  MutexLock lock(&mu_);
  return backoff * (1.0 - 0.5 * jitter_.UniformFloat());
}

void RetryingCoordinator::GetJob(v1::GetJobRequest request, Callback<v1::GetJobReply> done) {
  Begin<v1::GetJobRequest, v1::GetJobReply>(
      &CoordinatorEndpoint::GetJob, std::move(request),
      [this, done = std::move(done)](absl::StatusOr<v1::GetJobReply> reply) mutable {
        if (reply.ok()) {
          MutexLock lock(&mu_);
          heartbeat_interval_ = absl::Seconds(reply->job().membership().heartbeat_seconds());
        }
        done(std::move(reply));
      });
}

void RetryingCoordinator::RegisterServer(v1::RegisterServerRequest request,
                                         Callback<v1::RegisterReply> done) {
  Begin(&CoordinatorEndpoint::RegisterServer, std::move(request), std::move(done));
}

void RetryingCoordinator::RegisterWorker(v1::RegisterWorkerRequest request,
                                         Callback<v1::RegisterReply> done) {
  Begin(&CoordinatorEndpoint::RegisterWorker, std::move(request), std::move(done));
}

void RetryingCoordinator::Heartbeat(v1::HeartbeatRequest request,
                                    Callback<v1::HeartbeatReply> done) {
  absl::Duration parked_at_most;
  {
    MutexLock lock(&mu_);
    parked_at_most = heartbeat_interval_;
  }
  Begin(&CoordinatorEndpoint::Heartbeat, std::move(request), std::move(done), parked_at_most);
}

void RetryingCoordinator::ReportFailure(v1::ReportFailureRequest request,
                                        Callback<v1::ReportFailureReply> done) {
  Begin(&CoordinatorEndpoint::ReportFailure, std::move(request), std::move(done));
}

void RetryingCoordinator::ReportResult(v1::ReportResultRequest request,
                                       Callback<v1::ReportResultReply> done) {
  Begin(&CoordinatorEndpoint::ReportResult, std::move(request), std::move(done));
}

void RetryingCoordinator::GetStatus(v1::GetStatusRequest request,
                                    Callback<v1::GetStatusReply> done) {
  Begin(&CoordinatorEndpoint::GetStatus, std::move(request), std::move(done));
}

void RetryingCoordinator::SetConsistency(v1::SetConsistencyRequest request,
                                         Callback<v1::SetConsistencyReply> done) {
  Begin(&CoordinatorEndpoint::SetConsistency, std::move(request), std::move(done),
        /*parked_at_most=*/absl::InfiniteDuration());
}

void RetryingCoordinator::Checkpoint(v1::CheckpointRequest request,
                                     Callback<v1::CheckpointReply> done) {
  Begin(&CoordinatorEndpoint::Checkpoint, std::move(request), std::move(done),
        /*parked_at_most=*/absl::InfiniteDuration());
}

void RetryingCoordinator::ReadClock(v1::ReadClockRequest request,
                                    Callback<v1::ReadClockReply> done) {
  Begin(&CoordinatorEndpoint::ReadClock, std::move(request), std::move(done));
}

}  // namespace capstan
