#ifndef COMMON_TRANSPORT_FRAME_H_
#define COMMON_TRANSPORT_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/frame_header.h"
#include "common/transport/parameter_endpoint.h"
#include "common/transport/payload.h"

namespace capstan {

// A frame is a v1::ExchangeRequest or v1::ExchangeReply of proto/exchange.proto, whose payload
// comes last: a prefix that is made here, then the payload's bytes as they lie in memory. More
// frames may follow in the same message, each behind a prefix of its own: it is the `next` of the
// first.

// `received_bytes`: payloads that the sender of the frame has received; none: it has no receipts,
// and reads no frames that follow another one.
std::string EncodeRequestPrefix(uint64_t request_id, const ExchangeRequest& request,
                                std::optional<uint64_t> received_bytes = std::nullopt);
std::string EncodeReplyPrefix(uint64_t request_id, const ExchangeReply& reply,
                              uint64_t received_bytes = 0);

// What goes before a frame that follows another one in a message.
std::string EncodeNextPrefix(size_t frame_bytes);

// Frames that only say what has been received.
std::string EncodeRequestReceipt(uint64_t received_bytes);
std::string EncodeReplyReceipt(uint64_t received_bytes);

// Frames that follow another one in its message.
using NextFrames = std::vector<Payload>;
inline constexpr size_t kMostNext = 63;

// Reads a frame as any protobuf library would write it: fields in any order, unknown ones skipped.
// The payload keeps the frame's memory. INVALID_ARGUMENT when it is no such message.
// `next`: is given the frames that follow, at most kMostNext, to be decoded alike, unless there is
// an error; null: none may.
absl::StatusOr<RequestFrame> DecodeRequest(const Payload& frame, NextFrames* next = nullptr);
absl::StatusOr<ReplyFrame> DecodeReply(const Payload& frame, NextFrames* next = nullptr);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_FRAME_H_
