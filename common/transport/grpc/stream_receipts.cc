#include "common/transport/grpc/stream_receipts.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace capstan {

void StreamReceipts::Send(uint64_t bytes, Callback received) {
  sent_bytes_ += bytes;
  sent_.push_back({sent_bytes_, std::move(received)});
}

absl::StatusOr<StreamReceipts::Callbacks> StreamReceipts::Acknowledge(uint64_t bytes) {
  if (bytes < acknowledged_bytes_ || bytes > sent_bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("wrong receipt: expected from ", acknowledged_bytes_,
                     " bytes, as said before, to ", sent_bytes_, ", as sent on this stream, got ",
                     bytes, "; received_bytes counts the payloads of the stream since it began"));
  }
  acknowledged_bytes_ = bytes;
  Callbacks received;
  while (!sent_.empty() && sent_.front().end <= bytes) {
    received.push_back(std::move(sent_.front().received));
    sent_.pop_front();
  }
  return received;
}

StreamReceipts::Callbacks StreamReceipts::AcknowledgeAll() {
  Callbacks received;
  for (Sent& sent : sent_) received.push_back(std::move(sent.received));
  sent_.clear();
  return received;
}

}  // namespace capstan
