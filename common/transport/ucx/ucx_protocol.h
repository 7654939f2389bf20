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
  kUcxGreeting = 1,  // of a client, at first; its header is a UcxGreeting
  kUcxMessage = 2,   // a header of its own, and a payload
  kUcxGrant = 4,     // of a server; its header is a number of bytes: the window, which answers the
                     // greeting, then what is granted again
  kUcxBatch = 5,     // of messages: see message_batch.h
};

// What a client says first: which protocol it speaks, and the secret of its invitation.
struct UcxGreeting {
  static constexpr uint32_t kVersion = 1;
  static constexpr size_t kSecretBytes = 16;

  uint32_t version = kVersion;
  std::string secret;
};

// The headers' bytes, little-endian. Decoding: none when there are more or fewer of them.
std::string EncodeGreeting(const UcxGreeting& greeting);
std::optional<UcxGreeting> DecodeGreeting(absl::Span<const uint8_t> header);
std::string EncodeGrant(uint64_t bytes);
std::optional<uint64_t> DecodeGrant(absl::Span<const uint8_t> header);

// What a client has sent and its server has not granted again, which both of them count: at most
// the window, or a quarter of that and one message.
class UcxWindow {
 public:
  // What a message counts beside its payload.
  static constexpr uint64_t kOverheadBytes = 256;

  explicit UcxWindow(uint64_t bytes) : bytes_(bytes) {}

  uint64_t bytes() const { return bytes_; }
  uint64_t used_bytes() const { return used_bytes_; }
  // So much is worth a message that grants it again. What is left over then is less: any message
  // may be sent with that.
  uint64_t grant_bytes() const { return bytes_ / 4; }

  static uint64_t Count(uint64_t payload_bytes) { return kOverheadBytes + payload_bytes; }
  // Whether a message that counts `bytes` may be sent.
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
