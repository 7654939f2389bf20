#ifndef COMMON_TENSOR_HOST_BUFFER_H_
#define COMMON_TENSOR_HOST_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace capstan {

inline constexpr size_t kCacheLineBytes = 64;
inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kHugePageBytes = 2 << 20;

// `bytes` of host memory with undefined contents, aligned to a cache line. A page or more is
// aligned to a page. A huge page or more lies in huge pages, if the kernel has them: reading
// through memory in small pages, or copying it between processes, takes a fifth longer. Throws
// std::bad_alloc.
void* AllocateHostMemory(size_t bytes);

// Frees memory of AllocateHostMemory; null is allowed.
void FreeHostMemory(void* memory);

// `size` floats in host memory: its own, aligned as by AllocateHostMemory, or a share of an owner's
// memory. Movable.
class HostBuffer {
 public:
  // `size` zeros. RESOURCE_EXHAUSTED, with the number of bytes, if there is not enough memory.
  static absl::StatusOr<HostBuffer> Create(size_t size);

  HostBuffer() = default;
  // `size` zeros. Throws std::bad_alloc: to be used for sizes known to fit.
  explicit HostBuffer(size_t size);
  // Memory kept alive by `owner`.
  HostBuffer(float* data, size_t size, std::shared_ptr<void> owner)
      : size_(size), data_(data, Free{std::move(owner)}) {}

  size_t size() const { return size_; }
  // True for a share of an owner's memory.
  bool is_shared() const { return data_.get_deleter().owner != nullptr; }
  size_t size_bytes() const { return size_ * sizeof(float); }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  absl::Span<float> span() { return {data_.get(), size_}; }
  absl::Span<const float> span() const { return {data_.get(), size_}; }
  // The same memory.
  absl::Span<uint8_t> bytes() { return {reinterpret_cast<uint8_t*>(data()), size_bytes()}; }
  absl::Span<const uint8_t> bytes() const {
    return {reinterpret_cast<const uint8_t*>(data()), size_bytes()};
  }

 private:
  struct Free {
    std::shared_ptr<void> owner;
    void operator()(float* data) const {
      if (owner == nullptr) FreeHostMemory(data);
    }
  };
  size_t size_ = 0;
  std::unique_ptr<float, Free> data_;
};

}  // namespace capstan

#endif  // COMMON_TENSOR_HOST_BUFFER_H_
