#ifndef DEPLOY_CLI_GRPC_READER_CLIENT_H_
#define DEPLOY_CLI_GRPC_READER_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/transport/grpc/grpc_security.h"
#include "proto/reader_service.grpc.pb.h"
#include "proto/reader_service.pb.h"

namespace capstan {

// Reads parameters from a server, as nobody of its job. Thread-safe.
class GrpcReaderClient {
 public:
  // `address`: host:port of the server, as its job's status has it. `clock` outlives this object.
  GrpcReaderClient(const std::string& address, Clock* clock,
                   SecurityPointer security = NoSecurity());

  // Waits for at most ten seconds. The error says which server it is of.
  absl::StatusOr<v1::ReadRowsReply> ReadRows(const v1::ReadRowsRequest& request);

 private:
  const std::string address_;
  Clock* const clock_;
  const SecurityPointer security_;
  const std::unique_ptr<v1::ReaderService::Stub> stub_;
};

}  // namespace capstan

#endif  // DEPLOY_CLI_GRPC_READER_CLIENT_H_
