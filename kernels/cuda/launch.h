#ifndef KERNELS_CUDA_LAUNCH_H_
#define KERNELS_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/cuda_stream.h"

namespace capstan {

// Queues `kernel` on `stream`: `blocks` blocks of `threads` threads, at most 2^31 - 1 and 1,024.
// Does nothing if `blocks` is 0. Returns an error of the launch itself, naming `operation`. A later
// call reports an error of the run. For .cu.cc files only.
template <typename... Parameters, typename... Arguments>
absl::Status Launch(const char* operation, CudaStream& stream, int64_t blocks, int threads,
                    void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (blocks == 0) return absl::OkStatus();
  absl::Status status = stream.device().MakeCurrent();
  if (!status.ok()) return status;
  cudaLaunchConfig_t config = {};
  // CUDA refuses 0, and so a number beyond its range.
  const int64_t valid_blocks = blocks > 0 && blocks <= INT32_MAX ? blocks : 0;
  config.gridDim = dim3(static_cast<unsigned>(valid_blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream.get();
  const cudaError_t error =
      cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
  if (error == cudaSuccess) return absl::OkStatus();
  return CudaStatus(error, absl::StrCat(operation, ": launch of ", blocks, " blocks of ", threads,
                                        " threads on ", stream.device().name()));
}

}  // namespace capstan

#endif  // KERNELS_CUDA_LAUNCH_H_
