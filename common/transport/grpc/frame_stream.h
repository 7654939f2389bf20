#ifndef COMMON_TRANSPORT_GRPC_FRAME_STREAM_H_
#define COMMON_TRANSPORT_GRPC_FRAME_STREAM_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/transport/grpc/grpc_payload.h"
#include "common/transport/grpc/stream_receipts.h"
#include "common/wire/frame.h"

namespace capstan {

// The sending half of a gRPC stream, the same at both ends: keeps frames in order, puts those
// that wait into one message up to a bound, and adds receipts. `Exchange` is ExchangeRequest at a
// worker and ExchangeReply at a server. Not thread-safe: the stream's lock guards it.
template <typename Exchange>
class FrameStream {
 public:
  struct Frame {
    uint64_t request_id = 0;
    Exchange exchange;
    // Runs once the peer has the payload. If the payload is empty, runs once the frame is written.
    StreamReceipts::Callback delivered;
    uint64_t counted_bytes = 0;  // returned by OnWritten
  };
  // A written message.
  struct Written {
    uint64_t counted_bytes = 0;           // sum over its frames
    StreamReceipts::Callbacks delivered;  // of its frames without a payload
  };

  void Add(Frame frame) { waiting_.push_back(std::move(frame)); }
  bool has_waiting() const { return !waiting_.empty(); }
  bool is_writing() const { return is_writing_; }

  // While true, Next returns null. So the answers to one received message are sent together.
  void set_is_taking_message(bool is_taking_message) { is_taking_message_ = is_taking_message; }
  // The peer sends receipts and reads ours.
  void UseReceipts() { uses_receipts_ = true; }
  bool uses_receipts() const { return uses_receipts_; }
  // The peer reads several frames in one message.
  void SendTogether() { sends_together_ = true; }

  StreamReceipts& receipts() { return receipts_; }

  // Returns the next message to write: the oldest frames, or a receipt ahead of them. It is valid
  // until OnWritten. Null: there is nothing to write now.
  const grpc::ByteBuffer* Next();
  Written OnWritten();

  // Drops the waiting frames.
  void Clear() { waiting_.clear(); }

 private:
  // Encodes the oldest frame, and those after it that fit into one message.
  grpc::ByteBuffer TakeFrames();

  std::deque<Frame> waiting_;
  StreamReceipts receipts_;
  bool uses_receipts_ = false;
  bool sends_together_ = false;
  bool is_taking_message_ = false;
  bool is_writing_ = false;
  grpc::ByteBuffer message_;  // being written
  Written written_;           // returned once message_ is written
};

// Decodes a message with `decode`: DecodeRequest or DecodeReply. Calls `before` once, with true if
// the message has several frames. Then calls `take` for each frame, in order, until it returns
// false.
template <typename Decode, typename Before, typename Take>
void ForEachFrame(const Payload& message, Decode decode, Before before, Take take) {
  NextFrames next;
  auto first = decode(message, &next);
  before(!next.empty());
  bool goes_on = take(std::move(first));
  for (size_t i = 0; i < next.size() && goes_on; ++i) goes_on = take(decode(next[i], nullptr));
}

template <typename Exchange>
const grpc::ByteBuffer* FrameStream<Exchange>::Next() {
  if (is_writing_ || is_taking_message_) return nullptr;
  std::optional<uint64_t> next_bytes;
  if (!waiting_.empty()) next_bytes = PayloadBytes(waiting_.front().exchange);
  if (uses_receipts_ && receipts_.IsDue(next_bytes)) {
    message_ = ToByteBuffer(EncodeReceipt<Exchange>(receipts_.Report()), Payload());
  } else if (next_bytes.has_value()) {
    message_ = TakeFrames();
  } else {
    return nullptr;
  }
  is_writing_ = true;
  return &message_;
}

template <typename Exchange>
grpc::ByteBuffer FrameStream<Exchange>::TakeFrames() {
  GrpcMessage message;
  while (!waiting_.empty() && (message.empty() || sends_together_) &&
         message.Takes(PayloadBytes(waiting_.front().exchange))) {
    Frame frame = std::move(waiting_.front());
    waiting_.pop_front();
    const size_t bytes = PayloadBytes(frame.exchange);
    std::string prefix = EncodePrefix(frame.request_id, frame.exchange, receipts_.Report());
    message.Add(std::move(prefix), TakePayload(std::move(frame.exchange)));
    written_.counted_bytes += frame.counted_bytes;
    if (bytes > 0) {
      receipts_.Write(bytes, std::move(frame.delivered));
    } else {
      written_.delivered.push_back(std::move(frame.delivered));
    }
  }
  return message.Take();
}

template <typename Exchange>
typename FrameStream<Exchange>::Written FrameStream<Exchange>::OnWritten() {
  message_.Clear();
  is_writing_ = false;
  return std::exchange(written_, Written());
}

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_FRAME_STREAM_H_
