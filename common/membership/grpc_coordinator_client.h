#ifndef COMMON_MEMBERSHIP_GRPC_COORDINATOR_CLIENT_H_
#define COMMON_MEMBERSHIP_GRPC_COORDINATOR_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/membership/coordinator_absence.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/membership/grpc_coordinator_links.h"
#include "common/transport/grpc/grpc_security.h"
#include "proto/coordinator_service.grpc.pb.h"

namespace capstan {

// The coordinator over gRPC. Each call has `timeout`. Heartbeats have one heartbeat interval more,
// known from GetJob's reply, and at several addresses at most half a lease; changes of the
// consistency have 30 s. A member that sends heartbeats also has the call Attend open, so that its
// end is noticed at once. An absent coordinator is always UNAVAILABLE. If one side does not trust
// the other, the first calls are answered UNAUTHENTICATED. GetJob of a coordinator of another
// version is answered FAILED_PRECONDITION. Thread-safe.
class GrpcCoordinatorClient : public CoordinatorEndpoint {
 public:
  // The coordinator is at one of `addresses`, host:port each, of which there is at least one. A
  // call goes where the last one was answered, or to the next address if that one was UNAVAILABLE.
  // Notices within half a second when the coordinator has come back. `clock` shows the system's
  // time, and outlives the client.
  GrpcCoordinatorClient(std::vector<std::string> addresses, Clock& clock,
                        absl::Duration timeout = absl::Seconds(5),
                        SecurityPointer security = NoSecurity());
  // Open calls are answered CANCELLED before it returns; not to be called by a callback.
  ~GrpcCoordinatorClient() override;

  void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) override;

 private:
  using Member = std::tuple<v1::HeartbeatRequest::Role, uint32_t, uint64_t>;  // and incarnation
  using LinkPointer = GrpcCoordinatorLinks::LinkPointer;

  // How long the reply may take, and the error if it takes longer.
  struct Limit {
    absl::Duration timeout;
    absl::Status error;
  };

  Limit LimitOf(const CoordinatorRequest& request);
  // Opens the call Attend of this member over the link, unless it is open there.
  void Attend(const v1::HeartbeatRequest& member, const LinkPointer& link);
  template <typename Request>
  void Send(Request request, const LinkPointer& link, Limit limit, Callback<CoordinatorReply> done);
  // False when the client is being destroyed.
  bool Open(std::shared_ptr<grpc::ClientContext> context);
  // Frees the call, which has used `link`.
  void Close(grpc::ClientContext* context, LinkPointer link);
  absl::Status ErrorOf(const grpc::Status& status, const absl::Status& late,
                       const LinkPointer& link);
  // The same, without a word of the address.
  absl::Status MeaningOf(const grpc::Status& status, const absl::Status& late,
                         const std::string& address);
  // FAILED_PRECONDITION: the coordinator's version is another one.
  template <typename Reply>
  absl::Status NoteAnswer(const Reply& reply, const LinkPointer& link);

  const SecurityPointer security_;
  Clock& clock_;
  const absl::Duration timeout_;
  GrpcCoordinatorLinks links_;

  Mutex mu_;
  CondVar all_closed_;
  bool is_closing_ ABSL_GUARDED_BY(mu_) = false;
  bool has_been_answered_ ABSL_GUARDED_BY(mu_) = false;
  v1::MembershipSpec membership_ ABSL_GUARDED_BY(mu_);  // from GetJob's reply
  // Whose call Attend is open over which link.
  std::set<std::pair<Member, const GrpcCoordinatorLinks::Link*>> attending_ ABSL_GUARDED_BY(mu_);
  // The only owners of the calls; null while one is freed. Each call holds its channel.
  std::map<grpc::ClientContext*, std::shared_ptr<grpc::ClientContext>> open_ ABSL_GUARDED_BY(mu_);
};

// How a process reaches its coordinator.
struct CoordinatorOptions {
  std::string addresses;        // Required: host:port, or several with commas between them
  absl::Duration rpc_deadline;  // Required: RetryingCoordinator::Options, as the next four
  absl::Duration first_deadline = absl::ZeroDuration();
  bool is_member = true;
  CoordinatorAbsence* absence = nullptr;
  std::function<bool()> is_ending = nullptr;
  SecurityPointer security = NoSecurity();
};

// Calls are repeated while the coordinator cannot be reached. `clock` outlives the connection.
// INVALID_ARGUMENT, with the flags --coordinator and --rpc_deadline_seconds, for wrong addresses or
// a deadline of 0 or less.
absl::StatusOr<std::unique_ptr<CoordinatorEndpoint>> ConnectToCoordinator(
    CoordinatorOptions options, Clock* clock, Random jitter);

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_GRPC_COORDINATOR_CLIENT_H_
