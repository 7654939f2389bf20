#ifndef COMMON_TRANSPORT_FRAME_H_
#define COMMON_TRANSPORT_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/parameter_endpoint.h"
#include "common/transport/payload.h"

namespace capstan {

// A frame is a v1::ExchangeRequest or v1::ExchangeReply of proto/exchange.proto, whose payload is
// its last field: a prefix that is made here, then the payload's bytes as they lie in memory.

// `received_bytes`: payloads that the sender of the frame has received; none: it has no receipts.
std::string EncodeRequestPrefix(uint64_t request_id, const ExchangeRequest& request,
                                std::optional<uint64_t> received_bytes = std::nullopt);
std::string EncodeReplyPrefix(uint64_t request_id, const ExchangeReply& reply,
                              uint64_t received_bytes = 0);

// Frames that only say what has been received.
std::string EncodeRequestReceipt(uint64_t received_bytes);
std::string EncodeReplyReceipt(uint64_t received_bytes);

struct RequestFrame {
  uint64_t request_id = 0;
  ExchangeRequest request;
  std::optional<uint64_t> received_bytes;  // none: the client has no receipts

  // Else an exchange.
  bool is_receipt() const {
    return received_bytes.has_value() && !request.push_step.has_value() &&
           !request.pull_step.has_value();
  }
};
struct ReplyFrame {
  uint64_t request_id = 0;
  ExchangeReply reply;
  uint64_t received_bytes = 0;

  bool is_receipt() const { return request_id == 0 && reply.status.ok(); }
};

// Reads a frame as any protobuf library would write it: fields in any order, unknown ones skipped.
// The payload keeps the frame's memory. INVALID_ARGUMENT when it is no such message.
absl::StatusOr<RequestFrame> DecodeRequest(const Payload& frame);
absl::StatusOr<ReplyFrame> DecodeReply(const Payload& frame);

// The header alone, for transports that carry the payload beside it: a v1::ExchangeRequestHeader, a
// v1::ExchangeReplyHeader.
std::string EncodeRequestHeader(uint64_t request_id, const ExchangeRequest& request);
std::string EncodeReplyHeader(uint64_t request_id, const ExchangeReply& reply);

// The other way round; without payload. INVALID_ARGUMENT when it is no such message.
absl::StatusOr<RequestFrame> DecodeRequestHeader(absl::Span<const uint8_t> header);
absl::StatusOr<ReplyFrame> DecodeReplyHeader(absl::Span<const uint8_t> header);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_FRAME_H_
