#include "kernels/cuda/cuda_stream.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "glog/logging.h"
#include "kernels/cuda/cuda_event.h"
#include "kernels/cuda/cuda_status.h"

namespace capstan {
namespace {

// As cuBLAS recommends for Hopper; older GPUs need less.
constexpr size_t kBlasWorkspaceBytes = size_t{32} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(const CudaDevice& device,
                                                               Blas blas) {
  RETURN_IF_ERROR(device.MakeCurrent());
  cudaStream_t handle = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking),
                             absl::StrCat(device.name(), ": making a stream")));
  std::unique_ptr<CudaStream> stream(new CudaStream(device, handle));
  if (blas == Blas::kWithWorkspace) RETURN_IF_ERROR(stream->StartBlas());
  return stream;
}

CudaStream::CudaStream(const CudaDevice& device, CUstream_st* stream)
    : device_(device), stream_(stream) {}

absl::Status CudaStream::StartBlas() {
  const std::string what = absl::StrCat(device_.name(), ": starting cuBLAS");
  RETURN_IF_ERROR(CublasStatus(cublasCreate(&blas_), what));
  ASSIGN_OR_RETURN(blas_workspace_,
                   DeviceBuffer::Allocate(device_, kBlasWorkspaceBytes, "cuBLAS's workspace"));
  RETURN_IF_ERROR(CublasStatus(cublasSetStream(blas_, stream_), what));
  return CublasStatus(
      cublasSetWorkspace(blas_, blas_workspace_.data<void>(), blas_workspace_.size_bytes()), what);
}

CudaStream::~CudaStream() {
  const absl::Status status = Synchronize();
  LOG_IF(WARNING, !status.ok()) << "a stream of the GPU ends with an error: " << status;
  if (blas_ != nullptr) (void)CublasStatus(cublasDestroy(blas_), device_.name());
  (void)CudaStatus(cudaStreamDestroy(stream_), device_.name());
}

absl::Status CudaStream::CopyToDevice(const void* host, size_t bytes, void* device) {
  device_.CountToDevice(bytes);
  return Copy(host, bytes, device, cudaMemcpyHostToDevice);
}

absl::Status CudaStream::CopyToHost(const void* device, size_t bytes, void* host) {
  device_.CountToHost(bytes);
  return Copy(device, bytes, host, cudaMemcpyDeviceToHost);
}

absl::Status CudaStream::CopyOnDevice(const void* from, size_t bytes, void* to) {
  return Copy(from, bytes, to, cudaMemcpyDeviceToDevice);
}

absl::Status CudaStream::Copy(const void* from, size_t bytes, void* to, int kind) {
  if (bytes == 0) return absl::OkStatus();
  RETURN_IF_ERROR(device_.MakeCurrent());
  const cudaError_t error =
      cudaMemcpyAsync(to, from, bytes, static_cast<cudaMemcpyKind>(kind), stream_);
  if (error == cudaSuccess) return absl::OkStatus();
  return CudaStatus(error, absl::StrCat(device_.name(), ": copying ", bytes, " bytes"));
}

absl::Status CudaStream::SetBytes(unsigned char value, size_t bytes, void* device) {
  if (bytes == 0) return absl::OkStatus();
  RETURN_IF_ERROR(device_.MakeCurrent());
  const cudaError_t error = cudaMemsetAsync(device, value, bytes, stream_);
  if (error == cudaSuccess) return absl::OkStatus();
  return CudaStatus(error, absl::StrCat(device_.name(), ": setting ", bytes, " bytes"));
}

absl::Status CudaStream::WaitFor(const CudaEvent& event) {
  RETURN_IF_ERROR(device_.MakeCurrent());
  const cudaError_t error = cudaStreamWaitEvent(stream_, event.get(), 0);
  if (error == cudaSuccess) return absl::OkStatus();
  return CudaStatus(error, absl::StrCat(device_.name(), ": waiting for another stream"));
}

absl::Status CudaStream::Synchronize() {
  RETURN_IF_ERROR(device_.MakeCurrent());
  const cudaError_t error = cudaStreamSynchronize(stream_);
  if (error == cudaSuccess) return absl::OkStatus();
  return CudaStatus(error, absl::StrCat(device_.name(), ": waiting for a stream"));
}

}  // namespace capstan
