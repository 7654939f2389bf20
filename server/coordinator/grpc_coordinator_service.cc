#include "server/coordinator/grpc_coordinator_service.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/program.h"
#include "common/transport/grpc/grpc_setup.h"

namespace capstan {
namespace {

// A program from before there were versions of messages compares the version of the program alone,
// which may be the same.
template <typename Request>
absl::Status CheckWireVersion(const Request& request) {
  const uint32_t version = std::max(request.wire_version(), 1u);
  if (version == kWireVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "expected a member with messages of version ", kWireVersion, ", as this coordinator (",
      kVersion, ") has them, got ", version, "; use programs of one version on all machines"));
}

}  // namespace

// Lives until its call is done.
class GrpcCoordinatorService::MemberCall : public grpc::ServerUnaryReactor {
 public:
  template <typename Request>
  MemberCall(const Request& request, const OnBroken& on_broken)
      : is_heartbeat_(std::is_same_v<Request, v1::HeartbeatRequest>), on_broken_(on_broken) {
    member_.set_role(request.role());
    member_.set_id(request.id());
    member_.set_incarnation(request.incarnation());
  }

  void OnCancel() override { on_broken_(member_, is_heartbeat_); }
  void OnDone() override { delete this; }

 private:
  v1::AttendRequest member_;
  const bool is_heartbeat_;
  const OnBroken& on_broken_;
};

template <typename Request>
absl::Status GrpcCoordinatorService::Admit(const grpc::CallbackServerContext& context,
                                           const Request& /*request*/) {
  if (guard_ == nullptr) return absl::OkStatus();
  const absl::string_view call = absl::StripSuffix(Request::descriptor()->name(), "Request");
  if (absl::StartsWith(call, "Register")) return guard_->AdmitRegistration(context, call);
  return guard_->Admit(context, call).status();
}

template <typename Request>
grpc::ServerUnaryReactor* GrpcCoordinatorService::Answer(absl::Status admitted,
                                                         const Request* request,
                                                         ReplyOf<Request>* reply,
                                                         grpc::ServerUnaryReactor* reactor) {
  if constexpr (std::is_same_v<ReplyOf<Request>, v1::RegisterReply>) {
    if (admitted.ok()) admitted = CheckWireVersion(*request);
  }
  if (!admitted.ok()) {
    reactor->Finish(GrpcStatus(admitted));
    return reactor;
  }
  CallCoordinator(coordinator_, *request,
                  [reactor, reply](absl::StatusOr<ReplyOf<Request>> answer) {
                    if (answer.ok()) *reply = *std::move(answer);
                    reactor->Finish(GrpcStatus(answer.status()));
                  });
  return reactor;
}

template <typename Request>
grpc::ServerUnaryReactor* GrpcCoordinatorService::AnswerMember(grpc::CallbackServerContext* context,
                                                               const Request* request,
                                                               ReplyOf<Request>* reply) {
  absl::Status admitted = Admit(*context, *request);
  grpc::ServerUnaryReactor* const reactor =
      admitted.ok() && on_broken_ != nullptr
          ? static_cast<grpc::ServerUnaryReactor*>(new MemberCall(*request, on_broken_))
          : context->DefaultReactor();
  return Answer(std::move(admitted), request, reply, reactor);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::GetJob(grpc::CallbackServerContext* context,
                                                         const v1::GetJobRequest* request,
                                                         v1::GetJobReply* reply) {
  return Answer(context, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::RegisterServer(
    grpc::CallbackServerContext* context, const v1::RegisterServerRequest* request,
    v1::RegisterReply* reply) {
  return Answer(context, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::RegisterWorker(
    grpc::CallbackServerContext* context, const v1::RegisterWorkerRequest* request,
    v1::RegisterReply* reply) {
  return Answer(context, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::Heartbeat(grpc::CallbackServerContext* context,
                                                            const v1::HeartbeatRequest* request,
                                                            v1::HeartbeatReply* reply) {
  if (request->part() > 0) return Answer(context, request, reply);
  return AnswerMember(context, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::Attend(grpc::CallbackServerContext* context,
                                                         const v1::AttendRequest* request,
                                                         v1::AttendReply* reply) {
  return AnswerMember(context, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::ReportFailure(
    grpc::CallbackServerContext* context, const v1::ReportFailureRequest* request,
    v1::ReportFailureReply* reply) {
  return Answer(context, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::ReportResult(
    grpc::CallbackServerContext* context, const v1::ReportResultRequest* request,
    v1::ReportResultReply* reply) {
  return Answer(context, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::GetStatus(grpc::CallbackServerContext* context,
                                                            const v1::GetStatusRequest* request,
                                                            v1::GetStatusReply* reply) {
  return Answer(context, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::SetConsistency(
    grpc::CallbackServerContext* context, const v1::SetConsistencyRequest* request,
    v1::SetConsistencyReply* reply) {
  return Answer(context, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::Checkpoint(grpc::CallbackServerContext* context,
                                                             const v1::CheckpointRequest* request,
                                                             v1::CheckpointReply* reply) {
  return Answer(context, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::ReadClock(grpc::CallbackServerContext* context,
                                                            const v1::ReadClockRequest* request,
                                                            v1::ReadClockReply* reply) {
  return Answer(context, request, reply);
}

}  // namespace capstan
