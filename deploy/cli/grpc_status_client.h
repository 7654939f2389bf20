#ifndef DEPLOY_CLI_GRPC_STATUS_CLIENT_H_
#define DEPLOY_CLI_GRPC_STATUS_CLIENT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/transport/grpc/grpc_security.h"
#include "proto/coordinator_service.grpc.pb.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// A channel to a process of a job, host:port. Nobody has to listen there yet.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address, const GrpcSecurity& security);

// Asks a coordinator for the status of its job, and tells it of failures. Texts in replies are
// printable. Thread-safe.
class GrpcStatusClient {
 public:
  // `addresses`: the coordinator's host:port, or several, as of ParseAddresses. Where nobody
  // answers, the next one is asked. Nobody has to listen there yet. `clock` outlives this object.
  GrpcStatusClient(const std::string& addresses, Clock* clock,
                   SecurityPointer security = NoSecurity());

  // Waits for two seconds at each address, and for two more to find out why nobody answers.
  // UNAVAILABLE or
  // DEADLINE_EXCEEDED when nobody answers, UNAUTHENTICATED or PERMISSION_DENIED when one side does
  // not admit the other. The tables may be many: who asks often leaves them out.
  absl::StatusOr<v1::GetStatusReply> GetStatus(bool with_tables = true);

  // Tells it that a process of this role has ended before it registered. The same errors.
  absl::Status ReportEarlyFailure(v1::HeartbeatRequest::Role role, const std::string& reason);

 private:
  // The coordinator at one address.
  struct Place {
    std::string address;
    std::unique_ptr<v1::CoordinatorService::Stub> stub;
  };
  using Call = absl::FunctionRef<grpc::Status(v1::CoordinatorService::Stub&, grpc::ClientContext&)>;

  // Calls `method` at the address that has answered last, then at the others, until one answers.
  absl::Status CallInTurn(const std::string& method, const std::string& expected, Call call);
  // The same at one address.
  absl::Status CallAt(const Place& place, const std::string& method, Call call) const;
  // What to tell of an error of that.
  absl::Status ErrorAt(const std::string& address, absl::Status error,
                       const std::string& expected) const;

  const std::string addresses_;
  Clock* const clock_;
  const SecurityPointer security_;
  std::vector<Place> places_;  // constant

  Mutex mu_;
  size_t last_ ABSL_GUARDED_BY(mu_) = 0;  // of places_: where somebody answered
};

}  // namespace capstan

#endif  // DEPLOY_CLI_GRPC_STATUS_CLIENT_H_
