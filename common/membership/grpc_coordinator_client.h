#ifndef COMMON_MEMBERSHIP_GRPC_COORDINATOR_CLIENT_H_
#define COMMON_MEMBERSHIP_GRPC_COORDINATOR_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>

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
// heartbeat interval more, known from GetJob's reply; changes of the consistency have 30 s. A
// member that sends heartbeats also has the call Attend open, so that its end is noticed at once.
// An absent coordinator is always UNAVAILABLE. If one side does not trust the other, the first
// calls are answered UNAUTHENTICATED. GetJob of a coordinator of another version is answered
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

  void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) override;

 private:
  using Member = std::tuple<v1::HeartbeatRequest::Role, uint32_t, uint64_t>;  // and incarnation

  // How long the reply may take, and the error if it takes longer.
  struct Limit {
    absl::Duration timeout;
    absl::Status error;
  };

  Limit LimitOf(const CoordinatorRequest& request);
  // Opens the call Attend of this member, unless it is open.
  void Attend(const v1::HeartbeatRequest& member);
  template <typename Request>
  void Send(Request request, Limit limit, Callback<CoordinatorReply> done);
  // False when the client is being destroyed.
  bool Open(std::shared_ptr<grpc::ClientContext> context);
  // Frees the call.
  void Close(grpc::ClientContext* context);
  absl::Status ErrorOf(const grpc::Status& status, const absl::Status& late);
  // FAILED_PRECONDITION: the coordinator's version is another one.
  template <typename Reply>
  absl::Status NoteAnswer(const Reply& reply);
  absl::Status CheckVersion(const v1::GetJobReply& reply) const;

  const std::string address_;
  const SecurityPointer security_;
  const std::shared_ptr<grpc::Channel> channel_;
  Clock& clock_;
  const absl::Duration timeout_;

  Mutex mu_;
  CondVar all_closed_;
  bool is_closing_ ABSL_GUARDED_BY(mu_) = false;
  bool has_been_answered_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration heartbeat_interval_ ABSL_GUARDED_BY(mu_);
  std::set<Member> attending_ ABSL_GUARDED_BY(mu_);  // whose call Attend is open
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
