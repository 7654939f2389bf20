#ifndef COMMON_WIRE_EXCHANGE_HEADER_H_
#define COMMON_WIRE_EXCHANGE_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "proto/exchange.pb.h"

namespace capstan {

// The longest header: that of a record, which has less than 64 KiB beside its change.
inline constexpr size_t kMaxHeaderBytes = kMaxChangeBytes + (size_t{64} << 10);

// A received request with its id and the receipts of its stream.
struct RequestFrame {
  uint64_t request_id = 0;
  // An error: its parts do not fit together. INVALID_ARGUMENT is then its answer.
  absl::StatusOr<ExchangeRequest> request;
  size_t payload_bytes = 0;
  // The payload of a RowStep ends with the lists of the pushed and of the pulled keys, this long.
  uint32_t pushed_key_bytes = 0;
  uint32_t pulled_key_bytes = 0;
  bool is_receipt = false;                 // without a request, sent only for its `received_bytes`
  std::optional<uint64_t> received_bytes;  // by the client; none: it uses no receipts
  bool reads_next = false;                 // the client reads several frames in one message
};

// A received reply with the id of its request and the receipts of its stream.
struct ReplyFrame {
  uint64_t request_id = 0;
  ExchangeReply reply;
  uint64_t received_bytes = 0;  // by the server

  bool is_receipt() const { return request_id == 0 && reply.status.ok(); }
};

// The bytes of an exchange beside its header; PayloadBytes says how many.
Payload TakePayload(ExchangeRequest&& request);
inline Payload TakePayload(ExchangeReply&& reply) { return std::move(reply.values); }

// Convert an exchange to its protobuf header and back. None touches the payload. A request's
// payload has `payload_bytes`, and follows with SetPayload, if the frame has a request.
v1::ExchangeRequestHeader ToHeader(uint64_t request_id, const ExchangeRequest& request);
v1::ExchangeReplyHeader ToHeader(uint64_t request_id, const ExchangeReply& reply);
void FromHeader(const v1::ExchangeRequestHeader& header, size_t payload_bytes, RequestFrame* frame);
void FromHeader(const v1::ExchangeReplyHeader& header, ReplyFrame* frame);
void SetPayload(Payload payload, RequestFrame* frame);

// Encode the header alone, for transports that carry the payload separately. Overwrite `bytes` and
// reuse its memory.
void EncodeHeader(uint64_t request_id, const ExchangeRequest& request, std::string* bytes);
void EncodeHeader(uint64_t request_id, const ExchangeReply& reply, std::string* bytes);

// Decode the result of EncodeHeader into `frame`, which must be new. As FromHeader.
// INVALID_ARGUMENT: the bytes are no header, or more than kMaxHeaderBytes.
absl::Status DecodeHeader(absl::Span<const uint8_t> bytes, size_t payload_bytes,
                          RequestFrame* frame);
absl::Status DecodeHeader(absl::Span<const uint8_t> bytes, ReplyFrame* frame);

}  // namespace capstan

#endif  // COMMON_WIRE_EXCHANGE_HEADER_H_
