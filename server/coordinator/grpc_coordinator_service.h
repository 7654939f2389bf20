#ifndef SERVER_COORDINATOR_GRPC_COORDINATOR_SERVICE_H_
#define SERVER_COORDINATOR_GRPC_COORDINATOR_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <utility>

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
  // A member's call Attend has broken, or its heartbeat.
  using OnBroken = std::function<void(const v1::AttendRequest& member, bool is_heartbeat)>;

  // Both outlive the gRPC server. `guard` decides who may call what; null: everybody everything.
  // `on_broken` runs on any thread; null: nobody has to know.
  explicit GrpcCoordinatorService(CoordinatorEndpoint& coordinator, CallGuard* guard = nullptr,
                                  OnBroken on_broken = nullptr)
      : coordinator_(coordinator), guard_(guard), on_broken_(std::move(on_broken)) {}

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
  grpc::ServerUnaryReactor* Attend(grpc::CallbackServerContext* context,
                                   const v1::AttendRequest* request,
                                   v1::AttendReply* reply) override;
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
  class MemberCall;

  // Answers the call, if the guard admits it.
  template <typename Request>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const Request* request,
                                   ReplyOf<Request>* reply) {
    return Answer(Admit(*context, *request), request, reply, context->DefaultReactor());
  }
  // The same for a call that was `admitted`, or not.
  template <typename Request>
  grpc::ServerUnaryReactor* Answer(absl::Status admitted, const Request* request,
                                   ReplyOf<Request>* reply, grpc::ServerUnaryReactor* reactor);
  // The same for a call of which `on_broken_` hears.
  template <typename Request>
  grpc::ServerUnaryReactor* AnswerMember(grpc::CallbackServerContext* context,
                                         const Request* request, ReplyOf<Request>* reply);
  // Asks the guard, once a call: a second time, the proof of a token would be a used one.
  template <typename Request>
  absl::Status Admit(const grpc::CallbackServerContext& context, const Request& request);

  CoordinatorEndpoint& coordinator_;
  CallGuard* const guard_;
  const OnBroken on_broken_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_GRPC_COORDINATOR_SERVICE_H_
