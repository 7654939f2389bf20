#include "common/membership/retrying_coordinator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);
constexpr absl::Duration kLastBackoff = absl::Seconds(1);

}  // namespace

RetryingCoordinator::RetryingCoordinator(Options options, Clock& clock, Random jitter,
                                         std::unique_ptr<CoordinatorEndpoint> inner)
    : options_(std::move(options)), clock_(clock), jitter_(jitter), inner_(std::move(inner)) {}

RetryingCoordinator::~RetryingCoordinator() {
  std::vector<Clock::TimerId> timers;
  {
    MutexLock lock(&mu_);
    is_stopping_ = true;
    for (const auto& [id, waiting] : waiting_) timers.push_back(waiting.timer);
  }
  // Also waits for a timer that is using `inner_` now.
  for (const Clock::TimerId timer : timers) clock_.Cancel(timer);
  std::map<uint64_t, Waiting> given_up;
  {
    MutexLock lock(&mu_);
    given_up.swap(waiting_);
  }
  for (auto& [id, waiting] : given_up) {
    if (waiting.again) waiting.again(absl::CancelledError("this process is shutting down"));
  }
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
  absl::Status error;
  {
    MutexLock lock(&mu_);
    const absl::Time now = clock_.Now();
    if (!failures.since.has_value()) failures.since = now;
    const absl::Duration left = *failures.since + options_.rpc_deadline - now;
    if (is_stopping_) {
      error = absl::CancelledError("this process is shutting down");
    } else if (left <= absl::ZeroDuration()) {
      error = absl::UnavailableError(
          absl::StrCat("coordinator ", options_.address, " has been unreachable for ",
                       absl::ToDoubleSeconds(options_.rpc_deadline),
                       " s; check that it runs and that --coordinator is right"));
    } else {
      const absl::Duration pause = failures.backoff * (1.0 - 0.5 * jitter_.UniformFloat());
      failures.backoff = std::min(2 * failures.backoff, kLastBackoff);
      const uint64_t id = ++last_waiting_id_;
      Waiting& waiting = waiting_[id];
      waiting.again = std::move(again);
      waiting.timer = clock_.RunAfter(std::min(pause, left), [this, id] { EndPause(id); });
      return;
    }
  }
  again(error);
}

void RetryingCoordinator::EndPause(uint64_t waiting_id) {
  absl::AnyInvocable<void(absl::Status)> again;
  {
    MutexLock lock(&mu_);
    again = std::exchange(waiting_.at(waiting_id).again, nullptr);
  }
  again(absl::OkStatus());
  MutexLock lock(&mu_);
  waiting_.erase(waiting_id);
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

}  // namespace capstan
