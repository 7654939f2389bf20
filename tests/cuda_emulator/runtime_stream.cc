#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "tests/cuda_emulator/machine.h"
#include "tests/cuda_emulator/runtime_internal.h"
#include "tests/cuda_emulator/sanitizers.h"

using capstan::emulator::BlockRunner;
using capstan::emulator::CurrentGpu;
using capstan::emulator::GpuError;
using capstan::emulator::Machine;
using capstan::emulator::Moment;
using capstan::emulator::QuietLock;
using capstan::emulator::Told;

namespace {

// Null when the event was never recorded.
std::shared_ptr<Moment> LastMoment(CUevent_st& event) {
  QuietLock lock(&event.mu);
  return event.moment;
}

cudaError_t StreamError(cudaStream_t stream) {
  const cudaError_t error = GpuError();
  if (error != cudaSuccess) return error;
  return Machine::Get().IsStream(stream) ? Machine::Get().fault(stream->gpu)
                                         : cudaErrorInvalidResourceHandle;
}

cudaError_t EventError(cudaEvent_t event) {
  const cudaError_t error = GpuError();
  if (error != cudaSuccess) return error;
  return Machine::Get().IsEvent(event) ? Machine::Get().fault(event->gpu)
                                       : cudaErrorInvalidResourceHandle;
}

bool IsWithin(const dim3& size, unsigned x, unsigned y, unsigned z) {
  return size.x >= 1 && size.x <= x && size.y >= 1 && size.y <= y && size.z >= 1 && size.z <= z;
}

// More would need an opt-in, which the emulator has not.
constexpr size_t kMostDynamicSharedBytes = 48 << 10;

// The limits of every GPU since compute capability 3.0.
bool IsWithinLimits(const dim3& grid, const dim3& block) {
  return IsWithin(grid, 0x7fffffff, 65535, 65535) && IsWithin(block, 1024, 1024, 64) &&
         uint64_t{block.x} * block.y * block.z <= 1024;
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  const cudaError_t error = GpuError();
  if (error != cudaSuccess) return Told(error);
  *stream = Machine::Get().AddStream(CurrentGpu());
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!Machine::Get().IsStream(stream)) return Told(cudaErrorInvalidResourceHandle);
  const int gpu = stream->gpu;
  Machine::Get().RemoveStream(stream);
  return Told(Machine::Get().fault(gpu));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (!Machine::Get().IsStream(stream)) return Told(cudaErrorInvalidResourceHandle);
  stream->queue.PushMoment()->Wait();
  return Told(StreamError(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  cudaError_t error = StreamError(stream);
  if (error == cudaSuccess) error = EventError(event);
  if (error != cudaSuccess) return Told(error);
  if (std::shared_ptr<Moment> moment = LastMoment(*event); moment != nullptr)
    stream->queue.Push([moment = std::move(moment)](BlockRunner&) { moment->Wait(); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const cudaError_t error = GpuError();
  if (error != cudaSuccess) return Told(error);
  *event = Machine::Get().AddEvent(CurrentGpu(), (flags & cudaEventDisableTiming) == 0);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!Machine::Get().IsEvent(event)) return Told(cudaErrorInvalidResourceHandle);
  const int gpu = event->gpu;
  Machine::Get().RemoveEvent(event);
  return Told(Machine::Get().fault(gpu));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  cudaError_t error = EventError(event);
  if (error == cudaSuccess) error = StreamError(stream);
  if (error == cudaSuccess && event->gpu != stream->gpu) error = cudaErrorInvalidResourceHandle;
  if (error != cudaSuccess) return Told(error);
  std::shared_ptr<Moment> moment = stream->queue.PushMoment();
  QuietLock lock(&event->mu);
  event->moment = std::move(moment);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!Machine::Get().IsEvent(event)) return Told(cudaErrorInvalidResourceHandle);
  if (const std::shared_ptr<Moment> moment = LastMoment(*event); moment != nullptr) moment->Wait();
  return Told(EventError(event));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const cudaError_t error = EventError(event);
  if (error != cudaSuccess) return Told(error);
  const std::shared_ptr<Moment> moment = LastMoment(*event);
  return moment == nullptr || moment->IsReached() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  cudaError_t error = EventError(begin);
  if (error == cudaSuccess) error = EventError(end);
  if (error != cudaSuccess) return Told(error);
  const std::shared_ptr<Moment> first = LastMoment(*begin);
  const std::shared_ptr<Moment> second = LastMoment(*end);
  if (first == nullptr || second == nullptr || !begin->has_timing || !end->has_timing)
    return Told(cudaErrorInvalidResourceHandle);
  if (!first->IsReached() || !second->IsReached()) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(absl::ToDoubleMilliseconds(second->time() - first->time()));
  return cudaSuccess;
}

namespace capstan {
namespace emulator {

cudaError_t LaunchKernel(const cudaLaunchConfig_t& config,
                         std::initializer_list<const void*> pointers,
                         std::function<void()> thread) {
  const cudaError_t error = StreamError(config.stream);
  if (error != cudaSuccess) return Told(error);
  if (config.stream->gpu != CurrentGpu()) return Told(cudaErrorInvalidResourceHandle);
  if (!IsWithinLimits(config.gridDim, config.blockDim)) return Told(cudaErrorInvalidConfiguration);
  if (!Machine::Get().options().has_kernels) return Told(cudaErrorNoKernelImageForDevice);
  if (config.dynamicSmemBytes > kMostDynamicSharedBytes) return Told(cudaErrorInvalidValue);
  const int gpu = config.stream->gpu;
  for (const void* const pointer : pointers) {
    if (pointer == nullptr || Machine::Get().IsOnGpu(pointer, 0, gpu)) continue;
    // The end of an array is also the beginning of what lies behind it.
    if (Machine::Get().IsOnGpu(static_cast<const char*>(pointer) - 1, 1, gpu)) continue;
    Machine::Get().PushLaunch(*config.stream, [gpu](BlockRunner&) {
      Machine::Get().SetKernelFault(gpu, "a pointer that is not to this GPU's memory",
                                    cudaErrorIllegalAddress);
    });
    return cudaSuccess;
  }
  Machine::Get().PushLaunch(*config.stream, [grid = config.gridDim, block = config.blockDim, gpu,
                                             thread = std::move(thread)](BlockRunner& blocks) {
    const std::string fault = blocks.Run(grid, block, thread);
    if (!fault.empty()) Machine::Get().SetKernelFault(gpu, fault);
  });
  return cudaSuccess;
}

}  // namespace emulator
}  // namespace capstan
