#ifndef KERNELS_CUDA_CUDA_STATUS_H_
#define KERNELS_CUDA_CUDA_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace capstan {

// What a call of the CUDA runtime returned (a cudaError_t, as a number, so that users of this
// header need no CUDA) as a Status whose message is "`what`: the error's name and text; what to
// do". RESOURCE_EXHAUSTED when memory ran out, UNAVAILABLE when no driver or GPU answers or the GPU
// is taken, FAILED_PRECONDITION when driver or GPU do not fit this build, else INTERNAL.
absl::Status CudaStatus(int error, absl::string_view what);

// The same for a cublasStatus_t; FAILED_PRECONDITION when the GPU cannot do what was asked for.
absl::Status CublasStatus(int error, absl::string_view what);

}  // namespace capstan

#endif  // KERNELS_CUDA_CUDA_STATUS_H_
