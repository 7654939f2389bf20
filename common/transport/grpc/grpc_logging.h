#ifndef COMMON_TRANSPORT_GRPC_GRPC_LOGGING_H_
#define COMMON_TRANSPORT_GRPC_GRPC_LOGGING_H_

namespace capstan {

// Sends gRPC's own messages to VLOG(1): what a user must know of them comes as a Status. Called by
// mains, before any use of gRPC.
void SendGrpcLogsToVlog();

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_LOGGING_H_
