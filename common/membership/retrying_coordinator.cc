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
      later_(&clock),
      inner_(std::move(inner)) {}

RetryingCoordinator::~RetryingCoordinator() {
  later_.Stop();
  // Answers what is open, and those answers come back here.
  inner_.reset();
}

template <typename Request, typename Reply>
void RetryingCoordinator::Begin(Method<Request, Reply> method, Request request,
                                Callback<Reply> done) {
  auto call = std::make_shared<Call<Request, Reply>>();
  call->method = method;
  call->request = std::move(request);
  call->done = std::move(done);
  call->failures.backoff = kFirstBackoff;
  Send(std::move(call));
}

template <typename Request, typename Reply>
void RetryingCoordinator::Send(std::shared_ptr<Call<Request, Reply>> call) {
  ((*inner_).*(call->method))(call->request, [this, call](absl::StatusOr<Reply> reply) {
    if (!absl::IsUnavailable(reply.status())) return call->done(std::move(reply));
    Pause(call->failures, [this, call](absl::Status status) {
      if (!status.ok()) return call->done(status);
      Send(call);
    });
  });
}

void RetryingCoordinator::Pause(Failures& failures, absl::AnyInvocable<void(absl::Status)> again) {
  const absl::Time now = clock_.Now();
  if (!failures.since.has_value()) failures.since = now;
  const absl::Duration left = *failures.since + options_.rpc_deadline - now;
  if (left <= absl::ZeroDuration()) {
    return again(absl::UnavailableError(
        absl::StrCat("coordinator ", options_.address, " has been unreachable for ",
                     absl::ToDoubleSeconds(options_.rpc_deadline),
                     " s; check that it runs and that --coordinator is right")));
  }
  absl::Duration pause = failures.backoff;
  {
    MutexLock lock(&mu_);
    pause *= 1.0 - 0.5 * jitter_.UniformFloat();
  }
  failures.backoff = std::min(2 * failures.backoff, kLastBackoff);
  later_.RunAfter(std::min(pause, left), [again = std::move(again)](bool is_due) mutable {
    again(is_due ? absl::OkStatus() : absl::CancelledError("this process is shutting down"));
  });
}

void RetryingCoordinator::GetJob(v1::GetJobRequest request, Callback<v1::GetJobReply> done) {
  Begin(&CoordinatorEndpoint::GetJob, std::move(request), std::move(done));
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
  Begin(&CoordinatorEndpoint::Heartbeat, std::move(request), std::move(done));
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
  Begin(&CoordinatorEndpoint::SetConsistency, std::move(request), std::move(done));
}

void RetryingCoordinator::ReadClock(v1::ReadClockRequest request,
                                    Callback<v1::ReadClockReply> done) {
  Begin(&CoordinatorEndpoint::ReadClock, std::move(request), std::move(done));
}

}  // namespace capstan
