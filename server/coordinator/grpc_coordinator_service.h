#ifndef SERVER_COORDINATOR_GRPC_COORDINATOR_SERVICE_H_
#define SERVER_COORDINATOR_GRPC_COORDINATOR_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/transport/grpc/call_guard.h"
#include "proto/coordinator_service.grpc.pb.h"

namespace capstan {

// Offers a coordinator over gRPC. When a gRPC server shuts down, it waits until the coordinator has
// answered every parked heartbeat: at most one heartbeat interval. Thread-safe.
class GrpcCoordinatorService : public v1::CoordinatorService::CallbackService {
 public:
  // Both outlive the gRPC server. `guard` decides who may call what; null: everybody everything.
  explicit GrpcCoordinatorService(CoordinatorEndpoint& coordinator, CallGuard* guard = nullptr)
      : coordinator_(coordinator), guard_(guard) {}

  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request,
                                   v1::GetJobReply* reply) override;
  grpc::ServerUnaryReactor* RegisterServer(grpc::CallbackServerContext* context,
                                           const v1::RegisterServerRequest* request,
                                           v1::RegisterReply* reply) override;
  grpc::ServerUnaryReactor* RegisterWorker(grpc::CallbackServerContext* context,
                                           const v1::RegisterWorkerRequest* request,
                                           v1::RegisterReply* reply) override;
  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* context,
                                      const v1::HeartbeatRequest* request,
                                      v1::HeartbeatReply* reply) override;
  grpc::ServerUnaryReactor* ReportFailure(grpc::CallbackServerContext* context,
                                          const v1::ReportFailureRequest* request,
                                          v1::ReportFailureReply* reply) override;
  grpc::ServerUnaryReactor* ReportResult(grpc::CallbackServerContext* context,
                                         const v1::ReportResultRequest* request,
                                         v1::ReportResultReply* reply) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusReply* reply) override;
  grpc::ServerUnaryReactor* SetConsistency(grpc::CallbackServerContext* context,
                                           const v1::SetConsistencyRequest* request,
                                           v1::SetConsistencyReply* reply) override;
  grpc::ServerUnaryReactor* Checkpoint(grpc::CallbackServerContext* context,
                                       const v1::CheckpointRequest* request,
                                       v1::CheckpointReply* reply) override;
  grpc::ServerUnaryReactor* ReadClock(grpc::CallbackServerContext* context,
                                      const v1::ReadClockRequest* request,
                                      v1::ReadClockReply* reply) override;

 private:
  // Answers the call, if the guard admits it.
  template <typename Request>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const Request* request,
                                   ReplyOf<Request>* reply);
  absl::Status Admit(const grpc::CallbackServerContext& context, absl::string_view call);

  CoordinatorEndpoint& coordinator_;
  CallGuard* const guard_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_GRPC_COORDINATOR_SERVICE_H_
