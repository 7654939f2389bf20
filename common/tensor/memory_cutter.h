#ifndef COMMON_TENSOR_MEMORY_CUTTER_H_
#define COMMON_TENSOR_MEMORY_CUTTER_H_

#include <cstddef>
#include <cstdint>

namespace capstan {

// Cuts a piece of memory, on any device, into aligned parts from the front. Without memory it only
// counts: used_bytes() is then the size for the same cuts. Never touches the memory.
class MemoryCutter {
 public:
  // At least the width of a GPU's widest access. A GPU's allocator aligns its memory like this.
  static constexpr size_t kAlignment = 256;

  // `memory` is aligned to kAlignment, or null to count only.
  explicit MemoryCutter(void* memory) : memory_(static_cast<char*>(memory)) {}

  // The next `count` values; null when only counting.
  template <typename T>
  T* Take(int64_t count) {
    T* const part =
        memory_ == nullptr ? nullptr : static_cast<T*>(static_cast<void*>(memory_ + used_bytes_));
    used_bytes_ += RoundUp(static_cast<size_t>(count) * sizeof(T));
    return part;
  }

  size_t used_bytes() const { return used_bytes_; }

  // Bytes used by a part of `bytes`.
  static constexpr size_t RoundUp(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  char* const memory_;
  size_t used_bytes_ = 0;
};

}  // namespace capstan

#endif  // COMMON_TENSOR_MEMORY_CUTTER_H_
