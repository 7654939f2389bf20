#ifndef KERNELS_CUDA_CUDA_STREAM_H_
#define KERNELS_CUDA_CUDA_STREAM_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/device_buffer.h"

struct CUstream_st;
struct cublasContext;

namespace capstan {

class CudaEvent;

// A queue of operations on one GPU. They run one after the other; only Synchronize blocks. If an
// operation fails on the GPU, a later call reports it. The GPU is then lost for the process, and
// every call says so. One thread at a time uses a stream.
class CudaStream {
 public:
  enum class Blas { kNone, kWithWorkspace };  // whether Gemm may run here

  // kWithWorkspace takes 32 MiB of the GPU's memory. cuBLAS would otherwise take a different piece
  // each time, and sums would differ. `device` must outlive the stream.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(const CudaDevice& device, Blas blas);
  // Waits for the queued operations.
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  // These queue a copy and return at once. Host memory comes from a PinnedPool, and the caller
  // leaves it alone until the copy has ended.
  absl::Status CopyToDevice(const void* host, size_t bytes, void* device);
  absl::Status CopyToHost(const void* device, size_t bytes, void* host);
  // From one place of the GPU's memory to another. The two do not overlap.
  absl::Status CopyOnDevice(const void* from, size_t bytes, void* to);
  // Sets every byte to `value`.
  absl::Status SetBytes(unsigned char value, size_t bytes, void* device);

  // Later operations of this stream wait for the mark of `event`.
  absl::Status WaitFor(const CudaEvent& event);

  // Blocks the calling thread until everything queued has ended; for teardown and tests.
  absl::Status Synchronize();

  const CudaDevice& device() const { return device_; }
  CUstream_st* get() const { return stream_; }
  cublasContext* blas() const { return blas_; }  // null with Blas::kNone

 private:
  CudaStream(const CudaDevice& device, CUstream_st* stream);
  absl::Status StartBlas();
  absl::Status Copy(const void* from, size_t bytes, void* to, int kind);

  const CudaDevice& device_;
  CUstream_st* const stream_;
  cublasContext* blas_ = nullptr;
  DeviceBuffer blas_workspace_;
};

}  // namespace capstan

#endif  // KERNELS_CUDA_CUDA_STREAM_H_
