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

// A received request with its id and the receipts of its stream.
struct RequestFrame {
  uint64_t request_id = 0;
  ExchangeRequest request;
  std::optional<uint64_t> received_bytes;  // by the client; none: it uses no receipts
  bool reads_next = false;                 // the client reads several frames in one message

  // True for a frame without an exchange, sent only for its `received_bytes`.
  bool is_receipt() const {
    return received_bytes.has_value() && !request.push_step.has_value() &&
           !request.pull_step.has_value() && !MovesOwnState(request) && !request.is_initial &&
           !request.is_probe;
  }
};

// A received reply with the id of its request and the receipts of its stream.
struct ReplyFrame {
  uint64_t request_id = 0;
  ExchangeReply reply;
  uint64_t received_bytes = 0;  // by the server

  bool is_receipt() const { return request_id == 0 && reply.status.ok(); }
};

// Convert an exchange to its protobuf header and back. None touches the payload.
v1::ExchangeRequestHeader ToHeader(uint64_t request_id, const ExchangeRequest& request);
v1::ExchangeReplyHeader ToHeader(uint64_t request_id, const ExchangeReply& reply);
void FromHeader(const v1::ExchangeRequestHeader& header, RequestFrame* frame);
void FromHeader(const v1::ExchangeReplyHeader& header, ReplyFrame* frame);

// Encode the header alone, for transports that carry the payload separately. Overwrite `bytes` and
// reuse its memory.
void EncodeHeader(uint64_t request_id, const ExchangeRequest& request, std::string* bytes);
void EncodeHeader(uint64_t request_id, const ExchangeReply& reply, std::string* bytes);

// Decode the result of EncodeHeader into `frame`, which must be new. INVALID_ARGUMENT: the bytes
// are malformed.
absl::Status DecodeHeader(absl::Span<const uint8_t> bytes, RequestFrame* frame);
absl::Status DecodeHeader(absl::Span<const uint8_t> bytes, ReplyFrame* frame);

}  // namespace capstan

#endif  // COMMON_WIRE_EXCHANGE_HEADER_H_
