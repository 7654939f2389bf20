#include "kernels/cuda/pinned_pool.h"

#include <cuda_runtime.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_status.h"

namespace capstan {
namespace {

// The alignment of device memory. It is a multiple of the cache line, so that parts share none.
constexpr size_t kAlignment = 256;

}  // namespace

absl::StatusOr<std::shared_ptr<PinnedPool>> PinnedPool::Create(const CudaDevice& device,
                                                               size_t bytes) {
  bytes = RoundUp(bytes);
  void* data = nullptr;
  if (bytes > 0) {
    RETURN_IF_ERROR(device.MakeCurrent());
    const cudaError_t error = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return absl::ResourceExhaustedError(absl::StrCat(
          device.name(), ": expected ", bytes,
          " bytes of host memory to page-lock, but the system gives no such piece; free host "
          "memory, raise the memory limit of the container, or use a smaller model"));
    }
    RETURN_IF_ERROR(CudaStatus(
        error, absl::StrCat(device.name(), ": page-locking ", bytes, " bytes of host memory")));
    std::memset(data, 0, bytes);
  }
  return std::shared_ptr<PinnedPool>(new PinnedPool(device, data, bytes));
}

PinnedPool::PinnedPool(const CudaDevice& device, void* data, size_t size_bytes)
    : device_(device), data_(data), size_bytes_(size_bytes) {}

PinnedPool::~PinnedPool() {
  if (data_ == nullptr) return;
  // An error here belongs to an earlier operation. Other calls report it.
  (void)device_.MakeCurrent();
  if (cudaFreeHost(data_) != cudaSuccess) cudaGetLastError();
}

size_t PinnedPool::RoundUp(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

absl::StatusOr<void*> PinnedPool::Take(size_t bytes) {
  const size_t rounded = RoundUp(bytes);
  size_t left;
  {
    MutexLock lock(&mu_);
    left = size_bytes_ - taken_bytes_;
    if (rounded <= left) {
      void* const part = static_cast<char*>(data_) + taken_bytes_;
      taken_bytes_ += rounded;
      return part;
    }
  }
  return absl::ResourceExhaustedError(absl::StrCat("page-locked memory: expected ", rounded,
                                                   " bytes to be left of ", size_bytes_, ", got ",
                                                   left, "; make a larger pool"));
}

}  // namespace capstan
