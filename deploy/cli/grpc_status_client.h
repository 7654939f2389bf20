#ifndef DEPLOY_CLI_GRPC_STATUS_CLIENT_H_
#define DEPLOY_CLI_GRPC_STATUS_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
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
  // `address`: the coordinator's host:port. Nobody has to listen there yet. `clock` outlives this
  // object.
  GrpcStatusClient(const std::string& address, Clock* clock,
                   SecurityPointer security = NoSecurity());

  // Waits for two seconds, and for two more to find out why nobody answers. UNAVAILABLE or
  // DEADLINE_EXCEEDED when nobody answers, UNAUTHENTICATED or PERMISSION_DENIED when one side does
  // not admit the other. The tables may be many: who asks often leaves them out.
  absl::StatusOr<v1::GetStatusReply> GetStatus(bool with_tables = true);

  // Tells it that a process of this role has ended before it registered. The same errors.
  absl::Status ReportEarlyFailure(v1::HeartbeatRequest::Role role, const std::string& reason);

 private:
  // Prepares a call.
  void Begin(const std::string& method, grpc::ClientContext& context) const;
  absl::Status ErrorOf(const grpc::Status& status, const std::string& expected) const;

  const std::string address_;
  Clock* const clock_;
  const SecurityPointer security_;
  const std::unique_ptr<v1::CoordinatorService::Stub> stub_;
};

}  // namespace capstan

#endif  // DEPLOY_CLI_GRPC_STATUS_CLIENT_H_
