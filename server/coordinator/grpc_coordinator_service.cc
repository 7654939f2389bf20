#include "server/coordinator/grpc_coordinator_service.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "common/transport/grpc/grpc_setup.h"

namespace capstan {

absl::Status GrpcCoordinatorService::Admit(const grpc::CallbackServerContext& context,
                                           absl::string_view call) {
  if (guard_ == nullptr) return absl::OkStatus();
  if (absl::StartsWith(call, "Register")) return guard_->AdmitRegistration(context, call);
  return guard_->Admit(context, call).status();
}

template <typename Request, typename Reply>
grpc::ServerUnaryReactor* GrpcCoordinatorService::Answer(grpc::CallbackServerContext* context,
                                                         Method<Request, Reply> method,
                                                         const Request* request, Reply* reply) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const absl::string_view call = absl::StripSuffix(Request::descriptor()->name(), "Request");
  const absl::Status admitted = Admit(*context, call);
  if (!admitted.ok()) {
    reactor->Finish(GrpcStatus(admitted));
    return reactor;
  }
  (coordinator_.*method)(*request, [reactor, reply](absl::StatusOr<Reply> answer) {
    if (answer.ok()) *reply = *std::move(answer);
    reactor->Finish(GrpcStatus(answer.status()));
  });
  return reactor;
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::GetJob(grpc::CallbackServerContext* context,
                                                         const v1::GetJobRequest* request,
                                                         v1::GetJobReply* reply) {
  return Answer(context, &CoordinatorEndpoint::GetJob, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::RegisterServer(
    grpc::CallbackServerContext* context, const v1::RegisterServerRequest* request,
    v1::RegisterReply* reply) {
  return Answer(context, &CoordinatorEndpoint::RegisterServer, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::RegisterWorker(
    grpc::CallbackServerContext* context, const v1::RegisterWorkerRequest* request,
    v1::RegisterReply* reply) {
  return Answer(context, &CoordinatorEndpoint::RegisterWorker, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::Heartbeat(grpc::CallbackServerContext* context,
                                                            const v1::HeartbeatRequest* request,
                                                            v1::HeartbeatReply* reply) {
  return Answer(context, &CoordinatorEndpoint::Heartbeat, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::ReportFailure(
    grpc::CallbackServerContext* context, const v1::ReportFailureRequest* request,
    v1::ReportFailureReply* reply) {
  return Answer(context, &CoordinatorEndpoint::ReportFailure, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::ReportResult(
    grpc::CallbackServerContext* context, const v1::ReportResultRequest* request,
    v1::ReportResultReply* reply) {
  return Answer(context, &CoordinatorEndpoint::ReportResult, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::GetStatus(grpc::CallbackServerContext* context,
                                                            const v1::GetStatusRequest* request,
                                                            v1::GetStatusReply* reply) {
  return Answer(context, &CoordinatorEndpoint::GetStatus, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::SetConsistency(
    grpc::CallbackServerContext* context, const v1::SetConsistencyRequest* request,
    v1::SetConsistencyReply* reply) {
  return Answer(context, &CoordinatorEndpoint::SetConsistency, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::Checkpoint(grpc::CallbackServerContext* context,
                                                             const v1::CheckpointRequest* request,
                                                             v1::CheckpointReply* reply) {
  return Answer(context, &CoordinatorEndpoint::Checkpoint, request, reply);
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::ReadClock(grpc::CallbackServerContext* context,
                                                            const v1::ReadClockRequest* request,
                                                            v1::ReadClockReply* reply) {
  return Answer(context, &CoordinatorEndpoint::ReadClock, request, reply);
}

}  // namespace capstan
