#ifndef COMMON_TRANSPORT_GRPC_GRPC_PAYLOAD_H_
#define COMMON_TRANSPORT_GRPC_GRPC_PAYLOAD_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <string>

#include "absl/container/inlined_vector.h"
#include "common/exchange/payload.h"

namespace capstan {

// A message of `prefix` and the payload's bytes. gRPC reads the bytes in place, and keeps the
// payload's owner alive until it has released them.
grpc::ByteBuffer ToByteBuffer(const std::string& prefix, const Payload& payload);

// A message under construction: one frame, or several that wait together, because gRPC and the
// kernel have a cost for each message. A frame is a prefix and a payload, as in frame.h.
class GrpcMessage {
 public:
  // Largest sum of payloads in a message of several frames. If their prefixes have more bytes, no
  // further frame is added.
  static constexpr size_t kTogetherBytes = 256 << 10;
  // Largest sum of payloads that are copied into one piece, if there are several frames.
  static constexpr size_t kCopiedBytes = 32 << 10;

  bool empty() const { return frames_.empty(); }
  // True if a frame with such a payload may be added. The first may have any size.
  bool Takes(size_t payload_bytes) const;
  void Add(std::string prefix, Payload payload);
  // Returns the message. This object is empty afterwards.
  grpc::ByteBuffer Take();

 private:
  struct Frame {
    std::string prefix;
    Payload payload;
  };

  absl::InlinedVector<Frame, 1> frames_;
  size_t payload_bytes_ = 0;
  size_t prefix_bytes_ = 0;
};

// The bytes of a received message, in gRPC's memory.
Payload FromByteBuffer(const grpc::ByteBuffer& buffer);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_PAYLOAD_H_
