#ifndef DEPLOY_CLI_GRPC_STATUS_CLIENT_H_
#define DEPLOY_CLI_GRPC_STATUS_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/clock.h"
#include "proto/coordinator_service.grpc.pb.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Asks a coordinator for the status of its job, or for a checkpoint. Texts in replies are
// printable. Thread-safe.
class GrpcStatusClient {
 public:
  // `address`: the coordinator's host:port. Nobody has to listen there yet. `clock` outlives this
  // object.
  GrpcStatusClient(const std::string& address, Clock* clock);

  // Waits for at most two seconds. UNAVAILABLE or DEADLINE_EXCEEDED when nobody answers.
  absl::StatusOr<v1::GetStatusReply> GetStatus();

  // Waits until the checkpoint is complete, for at most an hour. UNAVAILABLE when nobody answers.
  // Otherwise the coordinator's error.
  absl::StatusOr<v1::CheckpointReply> Checkpoint();

 private:
  // `expected` is what was asked for.
  absl::Status ErrorOf(const grpc::Status& status, absl::string_view expected) const;

  const std::string address_;
  Clock* const clock_;
  const std::unique_ptr<v1::CoordinatorService::Stub> stub_;
};

}  // namespace capstan

#endif  // DEPLOY_CLI_GRPC_STATUS_CLIENT_H_
