#ifndef KERNELS_CUDA_PINNED_POOL_H_
#define KERNELS_CUDA_PINNED_POOL_H_

#include <cstddef>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "kernels/cuda/cuda_device.h"

namespace capstan {

// One piece of page-locked host memory, taken at once because page-locking is slow. Parts are cut
// from it and are given back when the pool ends. The user of a part keeps the pool alive, and the
// device must outlive the pool. Thread-safe.
class PinnedPool {
 public:
  // RESOURCE_EXHAUSTED when the system locks no more memory. `device` must outlive the pool.
  static absl::StatusOr<std::shared_ptr<PinnedPool>> Create(const CudaDevice& device, size_t bytes);
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // Bytes of the pool for a part of `bytes`: the next multiple of 256.
  static size_t RoundUp(size_t bytes);

  // The next `bytes` of the pool, aligned to 256, zero at first. RESOURCE_EXHAUSTED when fewer are
  // left.
  absl::StatusOr<void*> Take(size_t bytes);

  size_t size_bytes() const { return size_bytes_; }

 private:
  PinnedPool(const CudaDevice& device, void* data, size_t size_bytes);

  const CudaDevice& device_;
  void* const data_;
  const size_t size_bytes_;
  Mutex mu_;
  size_t taken_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace capstan

#endif  // KERNELS_CUDA_PINNED_POOL_H_
