#ifndef COMMON_TRANSPORT_FRAME_HEADER_H_
#define COMMON_TRANSPORT_FRAME_HEADER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/transport/exchange_header.h"
#include "common/transport/parameter_endpoint.h"

namespace capstan {

// Requests and replies as they come from a transport.

struct RequestFrame {
  uint64_t request_id = 0;
  ExchangeRequest request;
  std::optional<uint64_t> received_bytes;  // none: the client has no receipts
  bool reads_next = false;                 // the client reads frames that follow another one

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

// All of them but the payload, as it travels.
RequestHeader HeaderOf(uint64_t request_id, const ExchangeRequest& request);
ReplyHeader HeaderOf(uint64_t request_id, const ExchangeReply& reply);
void FromHeader(const RequestHeader& header, RequestFrame* frame);
void FromHeader(const ReplyHeader& header, ReplyFrame* frame);

// The header alone, for transports that carry the payload beside it: a v1::ExchangeRequestHeader, a
// v1::ExchangeReplyHeader. Replaces what `header` holds, in the same memory.
void EncodeRequestHeader(uint64_t request_id, const ExchangeRequest& request, std::string* header);
void EncodeReplyHeader(uint64_t request_id, const ExchangeReply& reply, std::string* header);

// The other way round, all but the payload, into a new frame. INVALID_ARGUMENT when it is no such
// message.
absl::Status DecodeRequestHeader(absl::Span<const uint8_t> header, RequestFrame* frame);
absl::Status DecodeReplyHeader(absl::Span<const uint8_t> header, ReplyFrame* frame);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_FRAME_HEADER_H_
