#ifndef COMMON_TRANSPORT_FRAME_H_
#define COMMON_TRANSPORT_FRAME_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/parameter_endpoint.h"
#include "common/transport/payload.h"

namespace capstan {

// A frame is a v1::ExchangeRequest or v1::ExchangeReply of proto/exchange.proto, whose payload is
// its last field: a prefix that is made here, then the payload's bytes as they lie in memory.

std::string EncodeRequestPrefix(uint64_t request_id, const ExchangeRequest& request);
std::string EncodeReplyPrefix(uint64_t request_id, const ExchangeReply& reply);

struct RequestFrame {
  uint64_t request_id = 0;
  ExchangeRequest request;
};
struct ReplyFrame {
  uint64_t request_id = 0;
  ExchangeReply reply;
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
