#ifndef SERVER_COORDINATOR_GRPC_COORDINATOR_SERVICE_H_
#define SERVER_COORDINATOR_GRPC_COORDINATOR_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.grpc.pb.h"

namespace capstan {

// Offers a coordinator over gRPC. When a gRPC server shuts down, it waits until the coordinator has
// answered every parked heartbeat: at most one heartbeat interval. Thread-safe.
class GrpcCoordinatorService : public v1::CoordinatorService::CallbackService {
 public:
  // `coordinator` must outlive the gRPC server.
  explicit GrpcCoordinatorService(CoordinatorEndpoint& coordinator) : coordinator_(coordinator) {}

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
  CoordinatorEndpoint& coordinator_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_GRPC_COORDINATOR_SERVICE_H_
