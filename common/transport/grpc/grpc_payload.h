#ifndef COMMON_TRANSPORT_GRPC_GRPC_PAYLOAD_H_
#define COMMON_TRANSPORT_GRPC_GRPC_PAYLOAD_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <string>

#include "absl/container/inlined_vector.h"
#include "common/exchange/payload.h"

namespace capstan {

// A message of `prefix` and the payload's bytes, which gRPC reads where they lie; the payload's
// owner lives until gRPC has sent them.
grpc::ByteBuffer ToByteBuffer(const std::string& prefix, const Payload& payload);

// A message that is being put together: one frame, or small ones, which cost gRPC and the kernel as
// much as one. Each is the prefix and the payload of frame.h.
class GrpcMessage {
 public:
  // Of payloads of frames that go together.
  static constexpr size_t kTogetherBytes = 32 << 10;

  bool empty() const { return frames_.empty(); }
  // Whether a frame with so large a payload may follow, or be the first.
  bool Takes(size_t payload_bytes) const;
  void Add(std::string prefix, Payload payload);
  // What has been added; it is empty then.
  grpc::ByteBuffer Take();

 private:
  struct Frame {
    std::string prefix;
    Payload payload;
  };

  absl::InlinedVector<Frame, 1> frames_;
  size_t payload_bytes_ = 0;
};

// The bytes of a received message, where gRPC has put them.
Payload FromByteBuffer(const grpc::ByteBuffer& buffer);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_PAYLOAD_H_
