#ifndef COMMON_MEMBERSHIP_GRPC_COORDINATOR_CLIENT_H_
#define COMMON_MEMBERSHIP_GRPC_COORDINATOR_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/transport/grpc/grpc_security.h"
#include "proto/coordinator_service.grpc.pb.h"

namespace capstan {

// The coordinator at the other end of a gRPC channel. Each call has `timeout`. Heartbeats have one
// heartbeat interval more, known from GetJob's reply; changes of the consistency have 30 s. An
// absent coordinator is always UNAVAILABLE. If one side does not trust the other, the first calls
// are answered UNAUTHENTICATED. GetJob of a coordinator of another version is answered
// FAILED_PRECONDITION. Thread-safe.
class GrpcCoordinatorClient : public CoordinatorEndpoint {
 public:
  // Calls the coordinator at `address`, host:port. Notices within a second when it has come back.
  // `clock` shows the system's time, and outlives the client.
  GrpcCoordinatorClient(const std::string& address, Clock& clock,
                        absl::Duration timeout = absl::Seconds(5),
                        SecurityPointer security = NoSecurity());
  // Open calls are answered CANCELLED before it returns; not to be called by a callback.
  ~GrpcCoordinatorClient() override;

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
  void Checkpoint(v1::CheckpointRequest request, Callback<v1::CheckpointReply> done) override;
  void ReadClock(v1::ReadClockRequest request, Callback<v1::ReadClockReply> done) override;

 private:
  using Stub = v1::CoordinatorService::Stub;
  template <typename Request, typename Reply>
  using Method = void (Stub::async::*)(grpc::ClientContext*, const Request*, Reply*,
                                       std::function<void(grpc::Status)>);

  template <typename Request, typename Reply>
  void Send(Method<Request, Reply> method, absl::Duration timeout, Request request,
            Callback<Reply> done);
  // False when the client is being destroyed.
  bool Open(std::shared_ptr<grpc::ClientContext> context);
  // Frees the call.
  void Close(grpc::ClientContext* context);
  absl::Status ErrorOf(const grpc::Status& status);
  // FAILED_PRECONDITION: the coordinator's version is another one.
  absl::Status CheckVersion(const v1::GetJobReply& reply) const;
  void NoteAnswer();

  const std::string address_;
  const SecurityPointer security_;
  const std::unique_ptr<Stub> stub_;
  Clock& clock_;
  const absl::Duration timeout_;

  Mutex mu_;
  CondVar all_closed_;
  bool is_closing_ ABSL_GUARDED_BY(mu_) = false;
  bool has_been_answered_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration heartbeat_interval_ ABSL_GUARDED_BY(mu_);
  // The only owners of the calls. Each call holds the channel, and a channel must not be destroyed
  // by one of its own threads.
  std::map<grpc::ClientContext*, std::shared_ptr<grpc::ClientContext>> open_ ABSL_GUARDED_BY(mu_);
};

// The coordinator at `address` (host:port). Calls are repeated while it cannot be reached, for at
// most `rpc_deadline`, or `first_deadline` until it has answered for the first time, if that is
// longer. `clock` outlives the connection. INVALID_ARGUMENT, with the flags
// --coordinator and --rpc_deadline_seconds, for a wrong address or a deadline of 0 or less.
absl::StatusOr<std::unique_ptr<CoordinatorEndpoint>> ConnectToCoordinator(
    const std::string& address, absl::Duration rpc_deadline, Clock* clock, Random jitter,
    SecurityPointer security = NoSecurity(), absl::Duration first_deadline = absl::ZeroDuration());

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_GRPC_COORDINATOR_CLIENT_H_
