#ifndef COMMON_TRANSPORT_GRPC_GRPC_STATUS_H_
#define COMMON_TRANSPORT_GRPC_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "common/base/printable_text.h"

namespace capstan {

// The two libraries number their codes alike. What a peer says may be printed.
inline grpc::Status GrpcStatus(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

inline absl::Status AbslStatus(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      PrintableText(status.error_message()));
}

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_STATUS_H_
