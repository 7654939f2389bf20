#include "kernels/cuda/cuda_status.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

struct Advice {
  absl::StatusCode code;
  const char* text;  // what to do
};

Advice AdviceFor(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return {absl::StatusCode::kResourceExhausted,
              "free the GPU of other programs (nvidia-smi lists them), or use a smaller model or "
              "batch_size"};
    case cudaErrorNoDevice:
      return {absl::StatusCode::kUnavailable,
              "look whether nvidia-smi lists a GPU and CUDA_VISIBLE_DEVICES hides none, or use "
              "--device=cpu"};
    case cudaErrorInitializationError:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
      return {absl::StatusCode::kUnavailable,
              "look with nvidia-smi whether another program has the GPU for itself, take another "
              "one with --device=cuda:NUMBER, or use --device=cpu"};
    case cudaErrorStubLibrary:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
      return {absl::StatusCode::kFailedPrecondition,
              "update the NVIDIA driver, and restart the machine when that was just done, or use "
              "--device=cpu"};
    case cudaErrorCompatNotSupportedOnDevice:
      return {
          absl::StatusCode::kFailedPrecondition,
          "CUDA's compatibility libraries (the package cuda-compat) do not serve this GPU: take "
          "their folder off LD_LIBRARY_PATH, or use --device=cpu"};
    case cudaErrorOperatingSystem:
      return {
          absl::StatusCode::kUnavailable,
          "look whether this process may open /dev/nvidia* (in a container, whether it was given "
          "the GPU) and lock memory (ulimit -l), or use --device=cpu"};
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
      return {absl::StatusCode::kFailedPrecondition,
              "use a GPU of compute capability 7.5, 8.0, 8.6 or 9.0 or newer, or --device=cpu"};
    default:
      return {absl::StatusCode::kInternal,
              "start the process again; when it comes back, dmesg (Xid) tells whether the GPU is "
              "at fault"};
  }
}

Advice AdviceForBlas(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return AdviceFor(cudaErrorMemoryAllocation);
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return {absl::StatusCode::kFailedPrecondition,
              "this GPU cannot do it in this precision: use --precision=float32, another GPU, or "
              "--device=cpu"};
    default:
      return AdviceFor(cudaErrorLaunchFailure);
  }
}

}  // namespace

absl::Status CudaStatus(int error, absl::string_view what) {
  const auto cuda_error = static_cast<cudaError_t>(error);
  if (cuda_error == cudaSuccess) return absl::OkStatus();
  // CUDA keeps the error. A later call that went well must not find it.
  cudaGetLastError();
  const Advice advice = AdviceFor(cuda_error);
  return absl::Status(advice.code, absl::StrCat(what, ": ", cudaGetErrorName(cuda_error), ": ",
                                                cudaGetErrorString(cuda_error), "; ", advice.text));
}

absl::Status CublasStatus(int error, absl::string_view what) {
  const auto status = static_cast<cublasStatus_t>(error);
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  // If the GPU was lost before, that is the reason.
  const cudaError_t cuda_error = cudaGetLastError();
  if (cuda_error != cudaSuccess) return CudaStatus(cuda_error, what);
  const Advice advice = AdviceForBlas(status);
  return absl::Status(advice.code,
                      absl::StrCat(what, ": ", cublasGetStatusName(status), "; ", advice.text));
}

}  // namespace capstan
