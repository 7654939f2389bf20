#ifndef KERNELS_CUDA_CUDA_DEVICE_H_
#define KERNELS_CUDA_CUDA_DEVICE_H_

#include <atomic>
#include <cstdint>
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
  int multiprocessor_count() const { return properties_.multiprocessor_count; }
  // From compute capability 8.0 on. Before, there are no bfloat16 products, and TF32 is float32.
  bool has_tf32_and_bfloat16() const { return properties_.has_tf32_and_bfloat16; }
  // False where a multiprocessor has few float64 lanes: 2 to 128 of float32 on T4, A10 and RTX.
  bool has_fast_float64() const { return properties_.has_fast_float64; }
  int64_t l2_cache_bytes() const { return properties_.l2_cache_bytes; }

  // Directs the calling thread's CUDA calls to this GPU. Cheap.
  absl::Status MakeCurrent() const;

  // Counts copies that streams have queued.
  void CountToDevice(uint64_t bytes) const {
    bytes_to_device_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void CountToHost(uint64_t bytes) const {
    bytes_to_host_.fetch_add(bytes, std::memory_order_relaxed);
  }
  uint64_t bytes_to_device() const { return bytes_to_device_.load(std::memory_order_relaxed); }
  uint64_t bytes_to_host() const { return bytes_to_host_.load(std::memory_order_relaxed); }

 private:
  struct Properties {
    int multiprocessor_count;
    int64_t l2_cache_bytes;
    bool has_tf32_and_bfloat16;
    bool has_fast_float64;
  };

  CudaDevice(int number, std::string name, const Properties& properties);

  const int number_;
  const std::string name_;
  const Properties properties_;
  mutable std::atomic<uint64_t> bytes_to_device_ = 0;
  mutable std::atomic<uint64_t> bytes_to_host_ = 0;
};

}  // namespace capstan

#endif  // KERNELS_CUDA_CUDA_DEVICE_H_
