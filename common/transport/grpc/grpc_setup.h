#ifndef COMMON_TRANSPORT_GRPC_GRPC_SETUP_H_
#define COMMON_TRANSPORT_GRPC_GRPC_SETUP_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/exchange/exchange_request.h"
#include "common/tensor/slicing.h"
#include "common/transport/grpc/grpc_security.h"

namespace capstan {

// How all processes use gRPC: the size of messages, channels, statuses and logs.

// Largest message that gRPC accepts: one slice and its header. The longest header has a change.
inline constexpr int kMaxMessageBytes =
    static_cast<int>(kMaxSliceBytes + kMaxChangeBytes + (64 << 10));

// Longest message from a coordinator: its view of a job has the tables of the longest registration.
inline constexpr int kMaxViewBytes = 2 * kMaxMessageBytes;

// A channel from a worker to the server at `address`, host:port. Shares no connection with other
// channels. Notices a server that is gone or hangs within 10 s.
std::shared_ptr<grpc::Channel> MakeGrpcChannel(const std::string& address,
                                               const GrpcSecurity& security);

// Both libraries number their codes alike. The message is cut (CutText).
grpc::Status GrpcStatus(const absl::Status& status);
// The message comes from a peer. It is made printable, and cut.
absl::Status AbslStatus(const grpc::Status& status);

// Sends gRPC's own log to VLOG(1): users learn about errors from statuses. Mains call this before
// any use of gRPC.
void SendGrpcLogsToVlog();

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_SETUP_H_
