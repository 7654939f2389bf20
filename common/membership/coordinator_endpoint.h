#ifndef COMMON_MEMBERSHIP_COORDINATOR_ENDPOINT_H_
#define COMMON_MEMBERSHIP_COORDINATOR_ENDPOINT_H_

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/one_shot.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// The coordinator, in this process or over a connection. Each callback runs exactly once, on any
// thread, possibly before the call returns. A connection answers UNAVAILABLE when the coordinator
// cannot be reached. Errors of the calls themselves are in coordinator_service.proto. Thread-safe.
class CoordinatorEndpoint {
 public:
  template <typename Reply>
  using Callback = absl::AnyInvocable<void(absl::StatusOr<Reply>)>;

  virtual ~CoordinatorEndpoint() = default;

  virtual void GetJob(v1::GetJobRequest request, Callback<v1::GetJobReply> done) = 0;
  virtual void RegisterServer(v1::RegisterServerRequest request,
                              Callback<v1::RegisterReply> done) = 0;
  virtual void RegisterWorker(v1::RegisterWorkerRequest request,
                              Callback<v1::RegisterReply> done) = 0;
  virtual void Heartbeat(v1::HeartbeatRequest request, Callback<v1::HeartbeatReply> done) = 0;
  virtual void ReportFailure(v1::ReportFailureRequest request,
                             Callback<v1::ReportFailureReply> done) = 0;
  virtual void ReportResult(v1::ReportResultRequest request,
                            Callback<v1::ReportResultReply> done) = 0;
  virtual void GetStatus(v1::GetStatusRequest request, Callback<v1::GetStatusReply> done) = 0;
  virtual void SetConsistency(v1::SetConsistencyRequest request,
                              Callback<v1::SetConsistencyReply> done) = 0;
  virtual void Checkpoint(v1::CheckpointRequest request, Callback<v1::CheckpointReply> done) = 0;
  virtual void ReadClock(v1::ReadClockRequest request, Callback<v1::ReadClockReply> done) = 0;
};

// Calls the coordinator, as in AwaitReply(coordinator, &CoordinatorEndpoint::GetJob, {}, clock),
// and blocks until the reply. For a process's own main thread.
template <typename Request, typename Reply>
absl::StatusOr<Reply> AwaitReply(
    CoordinatorEndpoint& coordinator,
    void (CoordinatorEndpoint::*method)(Request, CoordinatorEndpoint::Callback<Reply>),
    Request request, Clock& clock) {
  OneShot<absl::StatusOr<Reply>> answer(&clock);
  (coordinator.*method)(std::move(request),
                        [&answer](absl::StatusOr<Reply> reply) { answer.Set(std::move(reply)); });
  return answer.Wait();
}

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_COORDINATOR_ENDPOINT_H_
