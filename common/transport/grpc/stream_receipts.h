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

// What one end of a stream knows of its payloads: those that it has received and has not told of
// yet, and those that it has sent and the peer has not received. Receipts are numbers of bytes
// since the stream began. They ride on messages with small payloads or none, and go alone, ahead of
// larger ones, or when nothing else is to be written: so however little credit the peer has, it
// learns in time that it has it back. Not thread-safe.
class StreamReceipts {
 public:
  using Callback = absl::AnyInvocable<void()>;
  using Callbacks = std::vector<Callback>;

  // Payloads that a receipt need not overtake.
  static constexpr uint64_t kRideBytes = 64 << 10;

  // A payload has arrived.
  void Receive(uint64_t bytes) { received_bytes_ += bytes; }

  // Whether to write a receipt alone now; `next_bytes` is the payload of the message that is
  // written otherwise, if there is one.
  bool IsDue(std::optional<uint64_t> next_bytes) const {
    const bool may_ride = next_bytes.has_value() && *next_bytes <= kRideBytes;
    return received_bytes_ > reported_bytes_ && !may_ride;
  }

  // What the message that is written now says of the payloads that have arrived.
  uint64_t Report() { return reported_bytes_ = received_bytes_; }

  // A payload is written now, after all before it; `received` is given back below.
  void Send(uint64_t bytes, Callback received);

  // The peer says that it has received so many bytes: gives back the callbacks of what has arrived
  // whole, in the order in which it was sent. INVALID_ARGUMENT, naming expected and got, when that
  // is more than was sent, or less than was said before.
  absl::StatusOr<Callbacks> Acknowledge(uint64_t bytes);

  // Gives back all callbacks: what was sent counts as received, whatever the peer says.
  Callbacks AcknowledgeAll();

 private:
  struct Sent {
    uint64_t end = 0;  // bytes sent on this stream, this payload's included
    Callback received;
  };

  uint64_t received_bytes_ = 0;
  uint64_t reported_bytes_ = 0;
  uint64_t sent_bytes_ = 0;
  uint64_t acknowledged_bytes_ = 0;  // by the peer
  std::deque<Sent> sent_;            // not acknowledged, in order
};

// Runs each.
inline void RunAll(StreamReceipts::Callbacks callbacks) {
  for (StreamReceipts::Callback& callback : callbacks) callback();
}

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_STREAM_RECEIPTS_H_
