#include <cuda_runtime.h>

#include <cstring>

#include "tests/cuda_emulator/machine.h"
#include "tests/cuda_emulator/runtime_internal.h"

using capstan::emulator::BlockRunner;
using capstan::emulator::CurrentGpu;
using capstan::emulator::GpuError;
using capstan::emulator::Machine;
using capstan::emulator::Told;

namespace {

cudaError_t Allocate(int gpu, size_t bytes, void** pointer) {
  const cudaError_t error = GpuError();
  if (error != cudaSuccess) return Told(error);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  *pointer = Machine::Get().Allocate(gpu, bytes);
  return *pointer == nullptr ? Told(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t Free(bool is_host, void* pointer) {
  if (pointer != nullptr && !Machine::Get().Free(is_host, pointer))
    return Told(cudaErrorInvalidValue);
  return Told(GpuError());
}

bool IsCopyValid(const void* to, const void* from, size_t bytes, cudaMemcpyKind kind, int gpu) {
  Machine& machine = Machine::Get();
  const bool is_to_right = kind == cudaMemcpyDeviceToHost ? !machine.TouchesGpu(to, bytes)
                                                          : machine.IsOnGpu(to, bytes, gpu);
  const bool is_from_right = kind == cudaMemcpyHostToDevice ? !machine.TouchesGpu(from, bytes)
                                                            : machine.IsOnGpu(from, bytes, gpu);
  return is_to_right && is_from_right;
}

}  // namespace

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  const cudaError_t error = GpuError();
  if (error != cudaSuccess) return Told(error);
  *total_bytes = Machine::Get().options().gpu_memory_bytes;
  *free_bytes = *total_bytes - Machine::Get().AllocatedBytes(CurrentGpu());
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return Allocate(CurrentGpu(), bytes, pointer);
}

cudaError_t cudaFree(void* pointer) { return Free(/*is_host=*/false, pointer); }

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned /*flags*/) {
  return Allocate(Machine::kHost, bytes, pointer);
}

cudaError_t cudaFreeHost(void* pointer) { return Free(/*is_host=*/true, pointer); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const cudaError_t error = GpuError();
  if (error != cudaSuccess) return Told(error);
  if (!Machine::Get().IsStream(stream)) return Told(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  if (!IsCopyValid(to, from, bytes, kind, stream->gpu)) return Told(cudaErrorInvalidValue);
  Machine::Get().PushCopy(*stream, [=](BlockRunner&) { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  const cudaError_t error = GpuError();
  if (error != cudaSuccess) return Told(error);
  if (!Machine::Get().IsStream(stream)) return Told(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  if (!Machine::Get().IsOnGpu(to, bytes, stream->gpu)) return Told(cudaErrorInvalidValue);
  Machine::Get().PushCopy(*stream, [=](BlockRunner&) { std::memset(to, value, bytes); });
  return cudaSuccess;
}
