#ifndef SERVER_CHECKPOINT_BLOCK_READER_H_
#define SERVER_CHECKPOINT_BLOCK_READER_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/strings/string_view.h"
#include "common/base/ids.h"
#include "common/base/little_endian.h"

namespace capstan {

// Reads the contents of a checkpoint's block, numbers in little endian, one after the other. After
// the end it gives zeros. It keeps a view of the bytes. Not thread-safe.
class BlockReader {
 public:
  explicit BlockReader(absl::string_view bytes) : rest_(bytes) {}

  template <typename Number>
  Number Take() {
    if (rest_.size() < sizeof(Number)) {
      rest_ = "";
      is_whole_ = false;
      return 0;
    }
    const auto number = ReadLittleEndian<Number>(reinterpret_cast<const uint8_t*>(rest_.data()));
    rest_.remove_prefix(sizeof(Number));
    return number;
  }
  // No job gets to step 2^62; arithmetic with smaller ones does not overflow.
  Step TakeStep() {
    const auto step = Take<uint64_t>();
    if (step > uint64_t{1} << 62) is_whole_ = false;
    return Step(static_cast<int64_t>(step));
  }
  // A flag is 0 or 1.
  bool TakeFlag() {
    const auto flag = Take<uint8_t>();
    if (flag > 1) is_whole_ = false;
    return flag == 1;
  }
  // A learning rate or a momentum, if there is one: finite, and 0 or more.
  std::optional<double> TakeRate() {
    const bool is_there = TakeFlag();
    const auto bits = Take<uint64_t>();
    double rate = 0;
    std::memcpy(&rate, &bits, sizeof(rate));
    if (!std::isfinite(rate) || rate < 0) is_whole_ = false;
    return is_there && is_whole_ ? std::optional<double>(rate) : std::nullopt;
  }
  // A number of at most `most`.
  uint32_t TakeNumber(uint32_t most) {
    const auto number = Take<uint32_t>();
    if (number <= most) return number;
    is_whole_ = false;
    return 0;
  }
  // A count of things of at least `least_bytes` each: not more than can follow, nor than `most`.
  uint32_t TakeCount(size_t least_bytes, uint32_t most = std::numeric_limits<uint32_t>::max()) {
    const auto count = Take<uint32_t>();
    if (count <= rest_.size() / least_bytes && count <= most) return count;
    is_whole_ = false;
    return 0;
  }
  // As many bytes.
  absl::string_view TakeBytes(uint64_t count) {
    if (count > rest_.size()) {
      rest_ = "";
      is_whole_ = false;
      return "";
    }
    const absl::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  // What was read cannot be: is_whole is false from now on.
  void Refuse() { is_whole_ = false; }
  // Whether all that was taken was there, and may be.
  bool is_whole() const { return is_whole_; }
  bool is_at_end() const { return rest_.empty(); }

 private:
  absl::string_view rest_;
  bool is_whole_ = true;
};

}  // namespace capstan

#endif  // SERVER_CHECKPOINT_BLOCK_READER_H_
