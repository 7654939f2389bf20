#ifndef COMMON_MEMBERSHIP_RETRYING_COORDINATOR_H_
#define COMMON_MEMBERSHIP_RETRYING_COORDINATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/delayed_calls.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Makes a call again while its endpoint answers UNAVAILABLE, until `rpc_deadline` after the call's
// first failure; then answers UNAVAILABLE itself. Waiting is a timer. Thread-safe; when destroyed,
// what waits to be made again is answered CANCELLED.
class RetryingCoordinator : public CoordinatorEndpoint {
 public:
  struct Options {
    // Required: the coordinator's host:port, for messages.
    std::string address;
    // How long a call is made again.
    absl::Duration rpc_deadline = absl::Seconds(30);
  };

  // `clock` must outlive the endpoint. `jitter` makes each pause up to a half shorter.
  RetryingCoordinator(Options options, Clock& clock, Random jitter,
                      std::unique_ptr<CoordinatorEndpoint> inner);
  ~RetryingCoordinator() override;

  void GetJob(v1::GetJobRequest request, Callback<v1::GetJobReply> done) override;
  void RegisterServer(v1::RegisterServerRequest request, Callback<v1::RegisterReply> done) override;
  void RegisterWorker(v1::RegisterWorkerRequest request, Callback<v1::RegisterReply> done) override;
  void Heartbeat(v1::HeartbeatRequest request, Callback<v1::HeartbeatReply> done) override;
  void ReportFailure(v1::ReportFailureRequest request,
                     Callback<v1::ReportFailureReply> done) override;
  void ReportResult(v1::ReportResultRequest request, Callback<v1::ReportResultReply> done) override;
  void GetStatus(v1::GetStatusRequest request, Callback<v1::GetStatusReply> done) override;
  void SetConsistency(v1::SetConsistencyRequest request,
                      Callback<v1::SetConsistencyReply> done) override;
  void ReadClock(v1::ReadClockRequest request, Callback<v1::ReadClockReply> done) override;

 private:
  template <typename Request, typename Reply>
  using Method = void (CoordinatorEndpoint::*)(Request, Callback<Reply>);
  // Of one call.
  struct Failures {
    std::optional<absl::Time> since;
    absl::Duration backoff;
  };
  template <typename Request, typename Reply>
  struct Call {
    Method<Request, Reply> method;
    Request request;
    Callback<Reply> done;
    Failures failures;
  };

  template <typename Request, typename Reply>
  void Begin(Method<Request, Reply> method, Request request, Callback<Reply> done);
  template <typename Request, typename Reply>
  void Send(std::shared_ptr<Call<Request, Reply>> call);
  // Runs `again` with OK after a pause, or with an error when the call is to be given up.
  void Pause(Failures& failures, absl::AnyInvocable<void(absl::Status)> again);

  const Options options_;
  Clock& clock_;

  Mutex mu_;
  Random jitter_ ABSL_GUARDED_BY(mu_);

  DelayedCalls later_;  // Use `inner_` until they are stopped.
  std::unique_ptr<CoordinatorEndpoint> inner_;
};

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_RETRYING_COORDINATOR_H_
