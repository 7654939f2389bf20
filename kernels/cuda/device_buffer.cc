#include "kernels/cuda/device_buffer.h"

#include <cuda_runtime.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_status.h"

namespace capstan {

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(const CudaDevice& device, size_t bytes,
                                                    absl::string_view purpose) {
  if (bytes == 0) return DeviceBuffer();
  RETURN_IF_ERROR(device.MakeCurrent());
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free_bytes, &total_bytes), device.name()));
    return absl::ResourceExhaustedError(absl::StrCat(
        device.name(), ": expected ", bytes, " free bytes for ", purpose, ", got ", free_bytes,
        " of ", total_bytes,
        "; free the GPU of other programs (nvidia-smi lists them), or use a smaller model or "
        "batch_size"));
  }
  RETURN_IF_ERROR(
      CudaStatus(error, absl::StrCat(device.name(), ": ", bytes, " bytes for ", purpose)));
  return DeviceBuffer(&device, data, bytes);
}

DeviceBuffer::~DeviceBuffer() { Free(); }

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this == &other) return *this;
  Free();
  device_ = other.device_;
  data_ = std::exchange(other.data_, nullptr);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  return *this;
}

void DeviceBuffer::Free() {
  if (data_ == nullptr) return;
  // An error here belongs to an earlier operation. Other calls report it.
  (void)device_->MakeCurrent();
  if (cudaFree(data_) != cudaSuccess) cudaGetLastError();
  data_ = nullptr;
}

}  // namespace capstan
