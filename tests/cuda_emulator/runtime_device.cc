#include <cuda_runtime.h>

#include <cstdio>

#include "tests/cuda_emulator/machine.h"
#include "tests/cuda_emulator/runtime_internal.h"

namespace capstan {
namespace emulator {
namespace {

thread_local int current_gpu = 0;
thread_local cudaError_t last_error = cudaSuccess;

// With few of them, small inputs take several turns of a grid-stride loop.
constexpr int kMultiprocessors = 2;
constexpr int kL2CacheBytes = 50 << 20;

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorOperatingSystem, "cudaErrorOperatingSystem",
     "OS call failed or operation not supported on this OS"},
    {cudaErrorCompatNotSupportedOnDevice, "cudaErrorCompatNotSupportedOnDevice",
     "forward compatibility was attempted on non supported HW"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
};

// The error of a question about GPU `device`.
cudaError_t DeviceError(int device) {
  const cudaError_t error = MachineError();
  if (error != cudaSuccess) return error;
  return device < 0 || device >= Machine::Get().options().gpu_count ? cudaErrorInvalidDevice
                                                                    : cudaSuccess;
}

const ErrorText* Find(cudaError_t error) {
  for (const ErrorText& entry : kErrors) {
    if (entry.error == error) return &entry;
  }
  return nullptr;
}

}  // namespace

int CurrentGpu() { return current_gpu; }
void SetCurrentGpu(int gpu) { current_gpu = gpu; }

cudaError_t Told(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t MachineError() {
  const MachineOptions options = Machine::Get().options();
  if (options.driver_version < CUDART_VERSION) return cudaErrorInsufficientDriver;
  if (options.gpu_count == 0) return cudaErrorNoDevice;
  return cudaSuccess;
}

cudaError_t GpuError() {
  const cudaError_t error = MachineError();
  return error != cudaSuccess ? error : Machine::Get().fault(current_gpu);
}

}  // namespace emulator
}  // namespace capstan

using capstan::emulator::Find;
using capstan::emulator::Machine;
using capstan::emulator::Told;

cudaError_t cudaPeekAtLastError() {
  const cudaError_t fault = Machine::Get().fault(capstan::emulator::CurrentGpu());
  return fault != cudaSuccess ? fault : capstan::emulator::last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  capstan::emulator::last_error = cudaSuccess;
  return error;
}

const char* cudaGetErrorName(cudaError_t error) {
  const auto* const entry = Find(error);
  return entry == nullptr ? "unrecognized error code" : entry->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* const entry = Find(error);
  return entry == nullptr ? "unrecognized error code" : entry->text;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = Machine::Get().options().driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  const cudaError_t error = capstan::emulator::MachineError();
  if (error != cudaSuccess) return Told(error);
  *count = Machine::Get().options().gpu_count;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const cudaError_t error = capstan::emulator::DeviceError(device);
  if (error != cudaSuccess) return Told(error);
  capstan::emulator::SetCurrentGpu(device);
  return Told(Machine::Get().fault(device));
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const cudaError_t error = capstan::emulator::DeviceError(device);
  if (error != cudaSuccess) return Told(error);
  const capstan::emulator::MachineOptions options = Machine::Get().options();
  std::snprintf(properties->name, sizeof(properties->name), "emulated on the CPU");
  properties->major = options.compute_capability / 10;
  properties->minor = options.compute_capability % 10;
  properties->multiProcessorCount = capstan::emulator::kMultiprocessors;
  properties->l2CacheSize = capstan::emulator::kL2CacheBytes;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/, int device) {
  const cudaError_t error = capstan::emulator::DeviceError(device);
  if (error != cudaSuccess) return Told(error);
  const int capability = Machine::Get().options().compute_capability;
  *value = capability == 75 || capability == 86 ? 32 : 2;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  const cudaError_t error = capstan::emulator::GpuError();
  if (error != cudaSuccess) return Told(error);
  if (!Machine::Get().options().has_kernels) return Told(cudaErrorNoKernelImageForDevice);
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
