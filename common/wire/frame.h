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

// A frame is a v1::ExchangeRequest or v1::ExchangeReply of proto/exchange.proto. Its payload comes
// last: a frame is a prefix, which is made here, and then the payload's bytes as they lie in
// memory. More frames may follow in the same message. They are the `next` of the first one, and
// each has a prefix of its own.

// What the frame of an exchange carries beside its header.
inline Payload& PayloadOf(ExchangeRequest& request) { return request.gradient; }
inline Payload& PayloadOf(ExchangeReply& reply) { return reply.values; }

// `received_bytes` counts the payloads that the sender of the frame has received. A client that
// gives none has no receipts, and reads no frames that follow another one.
std::string EncodePrefix(uint64_t request_id, const ExchangeRequest& request,
                         std::optional<uint64_t> received_bytes = std::nullopt);
std::string EncodePrefix(uint64_t request_id, const ExchangeReply& reply,
                         uint64_t received_bytes = 0);

// What goes before a frame that follows another one in a message.
std::string EncodeNextPrefix(size_t frame_bytes);

// A frame that only says what has been received, as requests and as replies do.
template <typename Exchange>
std::string EncodeReceipt(uint64_t received_bytes);
template <>
std::string EncodeReceipt<ExchangeRequest>(uint64_t received_bytes);
template <>
std::string EncodeReceipt<ExchangeReply>(uint64_t received_bytes);

// Frames that follow another one in its message.
using NextFrames = std::vector<Payload>;
inline constexpr size_t kMostNext = 63;

// Reads a frame as any protobuf library would write it: fields in any order, unknown ones skipped.
// The payload keeps the frame's memory. INVALID_ARGUMENT when it is no such message.
// `next` receives the frames that follow, at most kMostNext, to be decoded alike; it is empty after
// an error. If it is null, no frame may follow.
absl::StatusOr<RequestFrame> DecodeRequest(const Payload& frame, NextFrames* next = nullptr);
absl::StatusOr<ReplyFrame> DecodeReply(const Payload& frame, NextFrames* next = nullptr);

}  // namespace capstan

#endif  // COMMON_WIRE_FRAME_H_
