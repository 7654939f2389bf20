#ifndef COMMON_TRANSPORT_GRPC_STREAM_RECEIPTS_H_
#define COMMON_TRANSPORT_GRPC_STREAM_RECEIPTS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"

namespace capstan {

// Counts the payloads of one end of a stream: received and not yet reported, written and not yet
// delivered. A receipt is the sum of received payloads in bytes, since the stream began. It rides
// on the next message if that begins with a small payload. Otherwise it is written alone, ahead of
// the message. So a peer with little credit gets it back in time. Not thread-safe.
class StreamReceipts {
 public:
  using Callback = absl::AnyInvocable<void()>;
  using Callbacks = std::vector<Callback>;

  // Largest first payload of a message with a receipt on it.
  static constexpr uint64_t kRideBytes = 64 << 10;

  // A payload has arrived.
  void Receive(uint64_t bytes) { received_bytes_ += bytes; }

  // True if a receipt must be written alone now. `next_bytes` is the size of the next message's
  // first payload, if there is such a message.
  bool IsDue(std::optional<uint64_t> next_bytes) const {
    const bool may_ride = next_bytes.has_value() && *next_bytes <= kRideBytes;
    return received_bytes_ > reported_bytes_ && !may_ride;
  }

  // Returns the receipt for the message being written.
  uint64_t Report() { return reported_bytes_ = received_bytes_; }

  // A payload is written now, after all before it. `delivered` is returned below.
  void Write(uint64_t bytes, Callback delivered);

  // The peer's receipt has come. Returns the callbacks of newly delivered payloads, in the order of
  // Write. INVALID_ARGUMENT, with expected and got: `bytes` is more than was written, or less than
  // the last receipt.
  absl::StatusOr<Callbacks> Acknowledge(uint64_t bytes);

  // Returns all callbacks: all written payloads count as delivered, without a receipt.
  Callbacks AcknowledgeAll();

 private:
  struct Undelivered {
    uint64_t end = 0;  // bytes written on this stream, up to the end of this payload
    Callback delivered;
  };

  uint64_t received_bytes_ = 0;
  uint64_t reported_bytes_ = 0;
  uint64_t written_bytes_ = 0;
  uint64_t acknowledged_bytes_ = 0;      // by the peer
  std::deque<Undelivered> undelivered_;  // in the order of Write
};

inline void RunAll(StreamReceipts::Callbacks callbacks) {
  for (StreamReceipts::Callback& callback : callbacks) callback();
}

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_STREAM_RECEIPTS_H_
