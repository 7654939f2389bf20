#ifndef COMMON_WIRE_FRAME_H_
#define COMMON_WIRE_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/wire/exchange_header.h"

namespace capstan {

// A frame is a v1::ExchangeRequest or v1::ExchangeReply of proto/exchange.proto, encoded as a
// prefix and then the payload's bytes, unchanged. The functions below make the prefix. A message is
// one frame, or several. The frames after the first are its field `next`. Each has its own prefix.

// `received_bytes` is the sum of the payloads received by this end of the stream. A client without
// it uses no receipts and reads one frame in each message.
std::string EncodePrefix(uint64_t request_id, const ExchangeRequest& request,
                         std::optional<uint64_t> received_bytes = std::nullopt);
std::string EncodePrefix(uint64_t request_id, const ExchangeReply& reply,
                         uint64_t received_bytes = 0);

// The bytes before each frame of a message except the first.
std::string EncodeNextPrefix(size_t frame_bytes);

// A frame without an exchange, sent only for its `received_bytes`.
template <typename Exchange>
std::string EncodeReceipt(uint64_t received_bytes);
template <>
std::string EncodeReceipt<ExchangeRequest>(uint64_t received_bytes);
template <>
std::string EncodeReceipt<ExchangeReply>(uint64_t received_bytes);

// The frames of a message after its first.
using NextFrames = std::vector<Payload>;
inline constexpr size_t kMostNext = 63;

// Decode a frame of any protobuf library: fields in any order, unknown ones skipped. The payload
// shares the frame's memory. `next` receives the following frames, still encoded, at most kMostNext
// of them. It is empty after an error. Null: no frame may follow. INVALID_ARGUMENT: malformed.
absl::StatusOr<RequestFrame> DecodeRequest(const Payload& frame, NextFrames* next = nullptr);
absl::StatusOr<ReplyFrame> DecodeReply(const Payload& frame, NextFrames* next = nullptr);

}  // namespace capstan

#endif  // COMMON_WIRE_FRAME_H_
