#ifndef KERNELS_CUDA_CUDA_STATUS_H_
#define KERNELS_CUDA_CUDA_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace capstan {

// The Status of a call of the CUDA runtime. `error` is its cudaError_t, as a number, so that users
// of this header need no CUDA. The message is "`what`: the error's name and text; advice".
// RESOURCE_EXHAUSTED: memory ran out. UNAVAILABLE: no driver or GPU answers, or the GPU is taken.
// FAILED_PRECONDITION: driver or GPU do not fit this build. INTERNAL: all others.
absl::Status CudaStatus(int error, absl::string_view what);

// The same for a cublasStatus_t. FAILED_PRECONDITION: the GPU lacks the operation.
absl::Status CublasStatus(int error, absl::string_view what);

}  // namespace capstan

#endif  // KERNELS_CUDA_CUDA_STATUS_H_
