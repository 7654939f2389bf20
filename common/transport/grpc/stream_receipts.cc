#include "common/transport/grpc/stream_receipts.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace capstan {

void StreamReceipts::Write(uint64_t bytes, Callback delivered) {
  written_bytes_ += bytes;
  undelivered_.push_back({written_bytes_, std::move(delivered)});
}

absl::StatusOr<StreamReceipts::Callbacks> StreamReceipts::Acknowledge(uint64_t bytes) {
  if (bytes < acknowledged_bytes_ || bytes > written_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wrong receipt: expected from ", acknowledged_bytes_, " bytes, as said before, to ",
        written_bytes_, ", as sent on this stream, got ", bytes,
        "; received_bytes counts the payloads of the stream since it began"));
  }
  acknowledged_bytes_ = bytes;
  Callbacks delivered;
  while (!undelivered_.empty() && undelivered_.front().end <= bytes) {
    delivered.push_back(std::move(undelivered_.front().delivered));
    undelivered_.pop_front();
  }
  return delivered;
}

StreamReceipts::Callbacks StreamReceipts::AcknowledgeAll() {
  Callbacks delivered;
  for (Undelivered& payload : undelivered_) delivered.push_back(std::move(payload.delivered));
  undelivered_.clear();
  return delivered;
}

}  // namespace capstan
