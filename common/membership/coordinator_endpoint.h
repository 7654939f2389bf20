#ifndef COMMON_MEMBERSHIP_COORDINATOR_ENDPOINT_H_
#define COMMON_MEMBERSHIP_COORDINATOR_ENDPOINT_H_

#include <utility>
#include <variant>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/one_shot.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// The calls of CoordinatorService. The request of call X is XRequest. common/README.md says what a
// new one needs.
using CoordinatorRequest =
    std::variant<v1::GetJobRequest, v1::RegisterServerRequest, v1::RegisterWorkerRequest,
                 v1::HeartbeatRequest, v1::AttendRequest, v1::ReportFailureRequest,
                 v1::ReportResultRequest, v1::GetStatusRequest, v1::SetConsistencyRequest,
                 v1::CheckpointRequest, v1::ReadClockRequest>;
using CoordinatorReply =
    std::variant<v1::GetJobReply, v1::RegisterReply, v1::HeartbeatReply, v1::AttendReply,
                 v1::ReportFailureReply, v1::ReportResultReply, v1::GetStatusReply,
                 v1::SetConsistencyReply, v1::CheckpointReply, v1::ReadClockReply>;

// clang-format off
template <typename Request> struct ReplyTo;
template <> struct ReplyTo<v1::GetJobRequest> { using Type = v1::GetJobReply; };
template <> struct ReplyTo<v1::RegisterServerRequest> { using Type = v1::RegisterReply; };
template <> struct ReplyTo<v1::RegisterWorkerRequest> { using Type = v1::RegisterReply; };
template <> struct ReplyTo<v1::HeartbeatRequest> { using Type = v1::HeartbeatReply; };
template <> struct ReplyTo<v1::AttendRequest> { using Type = v1::AttendReply; };
template <> struct ReplyTo<v1::ReportFailureRequest> { using Type = v1::ReportFailureReply; };
template <> struct ReplyTo<v1::ReportResultRequest> { using Type = v1::ReportResultReply; };
template <> struct ReplyTo<v1::GetStatusRequest> { using Type = v1::GetStatusReply; };
template <> struct ReplyTo<v1::SetConsistencyRequest> { using Type = v1::SetConsistencyReply; };
template <> struct ReplyTo<v1::CheckpointRequest> { using Type = v1::CheckpointReply; };
template <> struct ReplyTo<v1::ReadClockRequest> { using Type = v1::ReadClockReply; };
// clang-format on
template <typename Request>
using ReplyOf = typename ReplyTo<Request>::Type;

// The coordinator, in this process or over a connection. Each callback runs exactly once, on any
// thread, possibly before the call returns. A connection answers UNAVAILABLE when the coordinator
// cannot be reached. Errors of the calls themselves are in coordinator_service.proto. Thread-safe.
class CoordinatorEndpoint {
 public:
  template <typename Reply>
  using Callback = absl::AnyInvocable<void(absl::StatusOr<Reply>)>;

  virtual ~CoordinatorEndpoint() = default;

  // A reply is that of the request: ReplyOf. Callers use the two functions below.
  virtual void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) = 0;
};

// The view in the reply: none if it has no news. INTERNAL: it cannot be read.
inline absl::StatusOr<v1::JobView> ViewOf(const v1::HeartbeatReply& reply) {
  v1::JobView view;
  if (view.ParseFromString(reply.view())) return view;
  return absl::InternalError(
      absl::StrCat("expected a view of the job in the reply to a heartbeat, got ",
                   reply.view().size(), " other bytes"));
}

// Calls the coordinator.
template <typename Request>
void CallCoordinator(CoordinatorEndpoint& coordinator, Request request,
                     CoordinatorEndpoint::Callback<ReplyOf<Request>> done) {
  coordinator.Call(std::move(request),
                   [done = std::move(done)](absl::StatusOr<CoordinatorReply> reply) mutable {
                     if (!reply.ok()) return done(reply.status());
                     done(std::get<ReplyOf<Request>>(*std::move(reply)));
                   });
}

// Calls the coordinator, and blocks until the reply. For a process's own main thread.
template <typename Request>
absl::StatusOr<ReplyOf<Request>> AwaitReply(CoordinatorEndpoint& coordinator, Request request,
                                            Clock& clock) {
  OneShot<absl::StatusOr<ReplyOf<Request>>> answer(&clock);
  CallCoordinator(
      coordinator, std::move(request),
      [&answer](absl::StatusOr<ReplyOf<Request>> reply) { answer.Set(std::move(reply)); });
  return answer.Wait();
}

// For an endpoint's Call: the callback of a reply of this type.
template <typename Reply>
CoordinatorEndpoint::Callback<Reply> CallbackOf(
    CoordinatorEndpoint::Callback<CoordinatorReply> done) {
  return [done = std::move(done)](absl::StatusOr<Reply> reply) mutable {
    if (!reply.ok()) return done(reply.status());
    done(CoordinatorReply(*std::move(reply)));
  };
}

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_COORDINATOR_ENDPOINT_H_
