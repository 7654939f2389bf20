#include "kernels/cuda/cuda_device.h"

#include <cuda_runtime.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_status.h"

namespace capstan {
namespace {

// Any kernel of this build shows if the build has code for a GPU.
// At most 8 registers.
__global__ void Probe() {}

// Float64 is 2 times slower than float32 on GPUs for science, and 32 or 64 times on others.
constexpr int kFastFloat64Slowness = 4;

// "13.0" for 13000.
std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// "CUDA 13.0 (R580 or newer)". By NVIDIA's table of CUDA releases and drivers.
std::string NeededDriver(int runtime) {
  const char* const oldest = runtime >= 13000 ? "R580" : "R525";
  return absl::StrCat("CUDA ", VersionText(runtime), " (", oldest, " or newer)");
}

absl::Status DriverError() {
  int driver = 0;
  int runtime = 0;
  RETURN_IF_ERROR(CudaStatus(cudaDriverGetVersion(&driver), "reading the NVIDIA driver's version"));
  RETURN_IF_ERROR(CudaStatus(cudaRuntimeGetVersion(&runtime), "reading CUDA's version"));
  if (driver == 0) {
    return absl::UnavailableError(
        "no NVIDIA driver answers: expected one for " + NeededDriver(runtime) +
        "; install it and look whether nvidia-smi lists the GPU, or use --device=cpu");
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the NVIDIA driver is too old: expected one for ", NeededDriver(runtime),
      ", got one for CUDA ", VersionText(driver), "; update the driver, or use --device=cpu"));
}

// The number of GPUs, at least one.
absl::StatusOr<int> CountGpus() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    cudaGetLastError();
    return DriverError();
  }
  RETURN_IF_ERROR(CudaStatus(count == 0 && error == cudaSuccess ? cudaErrorNoDevice : error,
                             "looking for GPUs"));
  return count;
}

}  // namespace

CudaDevice::CudaDevice(int number, std::string name, const Properties& properties)
    : number_(number), name_(std::move(name)), properties_(properties) {}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(int number) {
  ASSIGN_OR_RETURN(const int count, CountGpus());
  if (number < 0 || number >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("cuda:", number, ": expected a GPU number from 0 to ", count - 1, ", of the ",
                     count, " that this machine has; correct --device"));
  }
  const std::string label = absl::StrCat("cuda:", number);
  cudaDeviceProp properties;
  RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, number), label));
  int float64_slowness = 0;
  RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetAttribute(&float64_slowness,
                                        cudaDevAttrSingleToDoublePrecisionPerfRatio, number),
                 label));
  std::unique_ptr<CudaDevice> device(
      new CudaDevice(number, absl::StrCat(label, " (", properties.name, ")"),
                     {properties.multiProcessorCount, properties.l2CacheSize,
                      /*has_tf32_and_bfloat16=*/properties.major >= 8,
                      /*has_fast_float64=*/float64_slowness <= kFastFloat64Slowness}));
  RETURN_IF_ERROR(device->MakeCurrent());
  cudaFuncAttributes attributes;
  RETURN_IF_ERROR(CudaStatus(cudaFuncGetAttributes(&attributes, Probe),
                             absl::StrCat(device->name(), ", compute capability ", properties.major,
                                          ".", properties.minor)));
  return device;
}

absl::Status CudaDevice::MakeCurrent() const {
  const cudaError_t error = cudaSetDevice(number_);
  return error == cudaSuccess ? absl::OkStatus() : CudaStatus(error, name_);
}

}  // namespace capstan
