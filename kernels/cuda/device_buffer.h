#ifndef KERNELS_CUDA_DEVICE_BUFFER_H_
#define KERNELS_CUDA_DEVICE_BUFFER_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/cuda_device.h"

namespace capstan {

// Bytes in a GPU's memory, aligned to 256, with any content at first. Owns them; movable. Freeing
// waits for everything queued on the GPU: keep buffers for the length of the training.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  // RESOURCE_EXHAUSTED: the GPU has less free. The message names `purpose`, such as "parameters".
  // `device` must outlive the buffer.
  static absl::StatusOr<DeviceBuffer> Allocate(const CudaDevice& device, size_t bytes,
                                               absl::string_view purpose);

  // Null when the buffer is empty.
  template <typename T>
  T* data() const {
    return static_cast<T*>(data_);
  }
  size_t size_bytes() const { return size_bytes_; }

 private:
  DeviceBuffer(const CudaDevice* device, void* data, size_t size_bytes)
      : device_(device), data_(data), size_bytes_(size_bytes) {}
  void Free();

  const CudaDevice* device_ = nullptr;
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace capstan

#endif  // KERNELS_CUDA_DEVICE_BUFFER_H_
