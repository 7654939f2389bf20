#ifndef COMMON_TENSOR_HOST_BUFFER_H_
#define COMMON_TENSOR_HOST_BUFFER_H_

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "common/tensor/host_memory.h"

namespace capstan {

// `size` floats in host memory. Owns them, aligned to a cache line or better, or a share of what
// they are part of; movable.
class HostBuffer {
 public:
  HostBuffer() = default;
  // Zero at first.
  explicit HostBuffer(size_t size)
      : size_(size), data_(static_cast<float*>(AllocateHostMemory(size * sizeof(float)))) {
    std::memset(data_.get(), 0, size * sizeof(float));
  }
  // Memory that `owner` keeps.
  HostBuffer(float* data, size_t size, std::shared_ptr<void> owner)
      : size_(size), data_(data, Free{std::move(owner)}) {}

  size_t size() const { return size_; }
  // A share of somebody else's memory.
  bool is_shared() const { return data_.get_deleter().owner != nullptr; }
  size_t size_bytes() const { return size_ * sizeof(float); }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  absl::Span<float> span() { return {data_.get(), size_}; }
  absl::Span<const float> span() const { return {data_.get(), size_}; }

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
