#ifndef COMMON_TRANSPORT_UCX_UCX_PROTOCOL_H_
#define COMMON_TRANSPORT_UCX_UCX_PROTOCOL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/types/span.h"

namespace capstan {

// The active messages between the two ends of a connection.
enum UcxMessageId : unsigned {
  kUcxGreeting = 1,  // the first message of a client; its header is a UcxGreeting
  kUcxMessage = 2,   // an exchange: its header and its payload
  kUcxGrant = 4,     // from a server; its header is a number of bytes. The first grant answers the
                     // greeting and is the window. Later ones return used bytes of the window.
  kUcxBatch = 5,     // several exchanges: see message_batch.h
};

// The version of a client's protocol, and the secret of its invitation.
struct UcxGreeting {
  static constexpr uint32_t kVersion = 1;
  static constexpr size_t kSecretBytes = 16;

  uint32_t version = kVersion;
  std::string secret;
};

// Headers are little-endian. Decoding returns nullopt if the number of bytes is wrong.
std::string EncodeGreeting(const UcxGreeting& greeting);
std::optional<UcxGreeting> DecodeGreeting(absl::Span<const uint8_t> header);
std::string EncodeGrant(uint64_t bytes);
std::optional<uint64_t> DecodeGrant(absl::Span<const uint8_t> header);

// Bounds a client's messages at its server. A message uses bytes of the window until the server
// grants them again. Both ends count the used bytes. They are at most the window, or a quarter of
// it and one message.
class UcxWindow {
 public:
  // Added to the size of a message's payload.
  static constexpr uint64_t kOverheadBytes = 256;

  explicit UcxWindow(uint64_t bytes) : bytes_(bytes) {}

  uint64_t bytes() const { return bytes_; }
  uint64_t used_bytes() const { return used_bytes_; }
  // The server grants bytes again once they exceed this size. So it never withholds more. While no
  // more bytes than this are used, a message of any size may be sent.
  uint64_t grant_bytes() const { return bytes_ / 4; }

  static uint64_t Count(uint64_t payload_bytes) { return kOverheadBytes + payload_bytes; }
  // True if a message of Count `bytes` may be sent.
  bool Takes(uint64_t bytes) const {
    return used_bytes_ + bytes <= bytes_ || used_bytes_ <= grant_bytes();
  }
  void Use(uint64_t bytes) { used_bytes_ += bytes; }
  void Grant(uint64_t bytes) { used_bytes_ -= std::min(bytes, used_bytes_); }

 private:
  const uint64_t bytes_;
  uint64_t used_bytes_ = 0;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_PROTOCOL_H_
