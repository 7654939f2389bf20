#ifndef KERNELS_CUDA_CUDA_DEVICE_H_
#define KERNELS_CUDA_CUDA_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace capstan {

// One GPU, opened. Outlives the buffers, events and streams that are made on it. Thread-safe.
class CudaDevice {
 public:
  // UNAVAILABLE without a driver or a GPU, or when another process has the GPU for itself;
  // INVALID_ARGUMENT for a number that no GPU has; FAILED_PRECONDITION for a driver that is too old
  // and for a GPU for which this build has no code. Each says what to do.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int number);

  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const std::string& name() const { return name_; }  // "cuda:0 (NVIDIA H200)"
  int multiprocessor_count() const { return multiprocessor_count_; }

  // Makes this GPU the one that the calling thread's CUDA calls mean. Cheap.
  absl::Status MakeCurrent() const;

 private:
  CudaDevice(int number, std::string name, int multiprocessor_count);

  const int number_;
  const std::string name_;
  const int multiprocessor_count_;
};

}  // namespace capstan

#endif  // KERNELS_CUDA_CUDA_DEVICE_H_
