#ifndef KERNELS_CUDA_CUDA_DEVICE_H_
#define KERNELS_CUDA_CUDA_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace capstan {

// One GPU, opened. It must outlive the buffers, events and streams made on it. Thread-safe.
class CudaDevice {
 public:
  // UNAVAILABLE: there is no driver or GPU, or another process has the GPU for itself.
  // INVALID_ARGUMENT: no GPU has this number. FAILED_PRECONDITION: the driver is too old, or this
  // build has no code for the GPU. Each message ends with advice.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int number);

  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const std::string& name() const { return name_; }  // "cuda:0 (NVIDIA H200)"
  int multiprocessor_count() const { return multiprocessor_count_; }
  // From compute capability 8.0 on. Before, there are no bfloat16 products, and TF32 is float32.
  bool has_tf32_and_bfloat16() const { return has_tf32_and_bfloat16_; }

  // Directs the calling thread's CUDA calls to this GPU. Cheap.
  absl::Status MakeCurrent() const;

 private:
  CudaDevice(int number, std::string name, int multiprocessor_count, bool has_tf32_and_bfloat16);

  const int number_;
  const std::string name_;
  const int multiprocessor_count_;
  const bool has_tf32_and_bfloat16_;
};

}  // namespace capstan

#endif  // KERNELS_CUDA_CUDA_DEVICE_H_
