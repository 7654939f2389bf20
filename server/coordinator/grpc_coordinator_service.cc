#include "server/coordinator/grpc_coordinator_service.h"

#include <utility>

#include "absl/status/statusor.h"
#include "common/transport/grpc/grpc_setup.h"

namespace capstan {
namespace {

// Finishes the call when the coordinator answers.
template <typename Reply>
CoordinatorEndpoint::Callback<Reply> FinishWith(grpc::ServerUnaryReactor* reactor, Reply* reply) {
  return [reactor, reply](absl::StatusOr<Reply> answer) {
    if (answer.ok()) *reply = *std::move(answer);
    reactor->Finish(GrpcStatus(answer.status()));
  };
}

}  // namespace

grpc::ServerUnaryReactor* GrpcCoordinatorService::GetJob(grpc::CallbackServerContext* context,
                                                         const v1::GetJobRequest* request,
                                                         v1::GetJobReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  coordinator_.GetJob(*request, FinishWith(reactor, reply));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::RegisterServer(
    grpc::CallbackServerContext* context, const v1::RegisterServerRequest* request,
    v1::RegisterReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  coordinator_.RegisterServer(*request, FinishWith(reactor, reply));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::RegisterWorker(
    grpc::CallbackServerContext* context, const v1::RegisterWorkerRequest* request,
    v1::RegisterReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  coordinator_.RegisterWorker(*request, FinishWith(reactor, reply));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::Heartbeat(grpc::CallbackServerContext* context,
                                                            const v1::HeartbeatRequest* request,
                                                            v1::HeartbeatReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  coordinator_.Heartbeat(*request, FinishWith(reactor, reply));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::ReportFailure(
    grpc::CallbackServerContext* context, const v1::ReportFailureRequest* request,
    v1::ReportFailureReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  coordinator_.ReportFailure(*request, FinishWith(reactor, reply));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::ReportResult(
    grpc::CallbackServerContext* context, const v1::ReportResultRequest* request,
    v1::ReportResultReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  coordinator_.ReportResult(*request, FinishWith(reactor, reply));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::GetStatus(grpc::CallbackServerContext* context,
                                                            const v1::GetStatusRequest* request,
                                                            v1::GetStatusReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  coordinator_.GetStatus(*request, FinishWith(reactor, reply));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::SetConsistency(
    grpc::CallbackServerContext* context, const v1::SetConsistencyRequest* request,
    v1::SetConsistencyReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  coordinator_.SetConsistency(*request, FinishWith(reactor, reply));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::Checkpoint(grpc::CallbackServerContext* context,
                                                             const v1::CheckpointRequest* request,
                                                             v1::CheckpointReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  coordinator_.Checkpoint(*request, FinishWith(reactor, reply));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcCoordinatorService::ReadClock(grpc::CallbackServerContext* context,
                                                            const v1::ReadClockRequest* request,
                                                            v1::ReadClockReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  coordinator_.ReadClock(*request, FinishWith(reactor, reply));
  return reactor;
}

}  // namespace capstan
