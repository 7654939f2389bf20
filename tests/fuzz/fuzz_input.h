#ifndef TESTS_FUZZ_FUZZ_INPUT_H_
#define TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace capstan {

// The input of a fuzzer. A decoder's options are taken from its first bytes.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  // The next byte; 0 at the end.
  uint8_t TakeByte() {
    const absl::string_view byte = Take(1);
    return byte.empty() ? 0 : static_cast<uint8_t>(byte[0]);
  }

  // The next part: its length as a little-endian uint16, then its bytes.
  absl::string_view TakePart() {
    const size_t low = TakeByte();
    return Take(low | static_cast<size_t>(TakeByte()) << 8);
  }

  absl::string_view rest() const { return rest_; }

 private:
  absl::string_view Take(size_t size) {
    const absl::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  absl::string_view rest_;
};

}  // namespace capstan

#endif  // TESTS_FUZZ_FUZZ_INPUT_H_
