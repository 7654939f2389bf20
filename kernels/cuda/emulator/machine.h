#ifndef KERNELS_CUDA_EMULATOR_MACHINE_H_
#define KERNELS_CUDA_EMULATOR_MACHINE_H_

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/base/real_clock.h"
#include "kernels/cuda/emulator/emulator.h"
#include "kernels/cuda/emulator/moment.h"
#include "kernels/cuda/emulator/stream_queue.h"

struct CUstream_st {
  CUstream_st(capstan::Clock& clock, int gpu_number) : gpu(gpu_number), queue(clock) {}

  const int gpu;
  capstan::emulator::StreamQueue queue;
};

struct CUevent_st {
  const int gpu;
  const bool has_timing;
  capstan::Mutex mu;
  // Where it was recorded last; null when it never was.
  std::shared_ptr<capstan::emulator::Moment> moment ABSL_GUARDED_BY(mu);
};

namespace capstan {
namespace emulator {

// The emulated machine of this process: its GPUs, their memory and streams, and what fails. There
// is one, as CUDA has no handle for it. Thread-safe; a stream's thread takes no lock of it.
class Machine {
 public:
  static Machine& Get();

  void Set(const MachineOptions& options);
  MachineOptions options();
  Clock& clock() { return clock_; }

  // Device memory, its bytes all set to 0xff, which is NaN; or page-locked host memory, where `gpu`
  // is kHost. Null when there is not that much left.
  static constexpr int kHost = -1;
  void* Allocate(int gpu, size_t bytes);
  // Waits for all streams of the GPU. False when `pointer` is not the start of such an allocation.
  bool Free(bool is_host, void* pointer);
  size_t AllocatedBytes(int gpu);
  // Whether all the bytes lie in one allocation of `gpu`; and whether any lies in one of a GPU.
  bool IsOnGpu(const void* data, size_t bytes, int gpu);
  bool TouchesGpu(const void* data, size_t bytes);

  CUstream_st* AddStream(int gpu);
  void RemoveStream(CUstream_st* stream);
  CUevent_st* AddEvent(int gpu, bool has_timing);
  void RemoveEvent(CUevent_st* event);
  bool IsStream(CUstream_st* stream);
  bool IsEvent(CUevent_st* event);

  // What has failed on a GPU, after which nothing works there; cudaSuccess while it is well.
  cudaError_t fault(int gpu) const;
  void SetFault(int gpu, cudaError_t error);
  void SetKernelFault(int gpu, const std::string& text);
  std::string last_kernel_fault();

  // Queues an operation, which is left out when the GPU has failed by then. One that is due to fail
  // by FailLaunch or FailCopy does so in its place.
  void PushLaunch(CUstream_st& stream, StreamQueue::Operation operation);
  void PushCopy(CUstream_st& stream, StreamQueue::Operation operation);
  void FailLaunch(int skip);
  void FailCopy(int skip);
  int64_t launch_count() const { return launch_count_; }

 private:
  // More than any test asks for; a GPU's fault is read without a lock.
  static constexpr int kMaxGpus = 8;
  struct Allocation {
    size_t bytes;
    int gpu;
  };

  Machine();
  void Push(CUstream_st& stream, bool fails, StreamQueue::Operation operation);
  const Allocation* FindLocked(const void* data, uintptr_t* start)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WaitForStreams(int gpu);

  RealClock clock_;
  std::atomic<int> faults_[kMaxGpus] = {};
  std::atomic<int> launches_until_failure_{-1};
  std::atomic<int> copies_until_failure_{-1};
  std::atomic<int64_t> launch_count_{0};

  Mutex mu_;
  MachineOptions options_ ABSL_GUARDED_BY(mu_);
  std::map<uintptr_t, Allocation> allocations_ ABSL_GUARDED_BY(mu_);  // by address
  std::set<CUstream_st*> streams_ ABSL_GUARDED_BY(mu_);
  std::set<CUevent_st*> events_ ABSL_GUARDED_BY(mu_);
  std::string last_kernel_fault_ ABSL_GUARDED_BY(mu_);
};

}  // namespace emulator
}  // namespace capstan

#endif  // KERNELS_CUDA_EMULATOR_MACHINE_H_
