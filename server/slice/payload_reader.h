#ifndef SERVER_SLICE_PAYLOAD_READER_H_
#define SERVER_SLICE_PAYLOAD_READER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/exchange/payload.h"

namespace capstan {

// Takes the parts of a payload, one after the other.
class PayloadReader {
 public:
  explicit PayloadReader(const Payload& payload) : payload_(payload) {}
  // INVALID_ARGUMENT: there are fewer bytes left.
  absl::StatusOr<Payload> Take(uint64_t bytes) {
    if (bytes > left()) return TooShort();
    Payload taken = payload_.Subrange(offset_, bytes);
    offset_ += bytes;
    return taken;
  }
  // The bytes as floats or keys in memory of their own.
  template <typename Number>
  absl::StatusOr<std::vector<Number>> TakeNumbers(uint64_t count) {
    if (count > payload_.size_bytes() / sizeof(Number)) return TooShort();
    absl::StatusOr<Payload> bytes = Take(count * sizeof(Number));
    if (!bytes.ok()) return bytes.status();
    std::vector<Number> numbers(count);
    bytes->CopyTo({reinterpret_cast<uint8_t*>(numbers.data()), count * sizeof(Number)});
    return numbers;
  }
  uint64_t left() const { return payload_.size_bytes() - offset_; }

 private:
  static absl::Status TooShort() {
    return absl::InvalidArgumentError("a change of a copy has fewer bytes than it says");
  }

  const Payload& payload_;
  size_t offset_ = 0;
};

}  // namespace capstan

#endif  // SERVER_SLICE_PAYLOAD_READER_H_
