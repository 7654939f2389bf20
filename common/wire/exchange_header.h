#ifndef COMMON_WIRE_EXCHANGE_HEADER_H_
#define COMMON_WIRE_EXCHANGE_HEADER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/exchange/parameter_endpoint.h"
#include "proto/exchange.pb.h"

namespace capstan {

// An exchange as a transport receives it: with its id, and what its stream has received.

struct RequestFrame {
  uint64_t request_id = 0;
  ExchangeRequest request;
  std::optional<uint64_t> received_bytes;  // none: the client has no receipts
  bool reads_next = false;                 // the client reads frames that follow another one

  // It only says what the client has received; it is no exchange.
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

// The fields of an exchange in its protobuf header, and back. Neither touches the payload.
v1::ExchangeRequestHeader ToHeader(uint64_t request_id, const ExchangeRequest& request);
v1::ExchangeReplyHeader ToHeader(uint64_t request_id, const ExchangeReply& reply);
void FromHeader(const v1::ExchangeRequestHeader& header, RequestFrame* frame);
void FromHeader(const v1::ExchangeReplyHeader& header, ReplyFrame* frame);

// The header's bytes, for transports that carry the payload beside it. Replaces what `bytes` holds,
// in the same memory.
void EncodeHeader(uint64_t request_id, const ExchangeRequest& request, std::string* bytes);
void EncodeHeader(uint64_t request_id, const ExchangeReply& reply, std::string* bytes);

// Decodes such bytes into a new frame. INVALID_ARGUMENT when they are no such header.
absl::Status DecodeHeader(absl::Span<const uint8_t> bytes, RequestFrame* frame);
absl::Status DecodeHeader(absl::Span<const uint8_t> bytes, ReplyFrame* frame);

}  // namespace capstan

#endif  // COMMON_WIRE_EXCHANGE_HEADER_H_
