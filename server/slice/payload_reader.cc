#include "server/slice/payload_reader.h"

namespace capstan {

absl::Status PayloadReader::TooShort() {
  return absl::InvalidArgumentError("a change of a copy has fewer bytes than it says");
}

absl::StatusOr<Payload> PayloadReader::Take(uint64_t bytes) {
  if (bytes > payload_.size_bytes() - offset_) return TooShort();
  Payload taken = payload_.Subrange(offset_, bytes);
  offset_ += bytes;
  return taken;
}

}  // namespace capstan
