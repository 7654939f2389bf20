#ifndef COMMON_TRANSPORT_GRPC_PAYLOAD_H_
#define COMMON_TRANSPORT_GRPC_PAYLOAD_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <string>

#include "common/tensor/slicing.h"
#include "common/transport/payload.h"

namespace capstan {

// Largest message that gRPC accepts: one slice and its header.
inline constexpr int kMaxMessageBytes = static_cast<int>(kMaxSliceBytes + (64 << 10));

// A message of `prefix` and the payload's bytes, which gRPC reads where they lie; the payload's
// owner lives until gRPC has sent them.
grpc::ByteBuffer ToByteBuffer(const std::string& prefix, const Payload& payload);

// The bytes of a received message, where gRPC has put them.
Payload FromByteBuffer(const grpc::ByteBuffer& buffer);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_PAYLOAD_H_
