#ifndef COMMON_TRANSPORT_GRPC_GRPC_CHANNEL_H_
#define COMMON_TRANSPORT_GRPC_GRPC_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace capstan {

// A channel of its own from a worker to the server at `address`, host:port, which finds out when
// the server is gone or hangs.
std::shared_ptr<grpc::Channel> MakeGrpcChannel(const std::string& address);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_CHANNEL_H_
