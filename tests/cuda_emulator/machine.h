#ifndef TESTS_CUDA_EMULATOR_MACHINE_H_
#define TESTS_CUDA_EMULATOR_MACHINE_H_

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
#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_emulator/moment.h"
#include "tests/cuda_emulator/stream_queue.h"

struct CUstream_st {
  CUstream_st(capstan::Clock& clock, int gpu_number) : gpu(gpu_number), queue(clock) {}

  const int gpu;
  capstan::emulator::StreamQueue queue;
};

struct CUevent_st {
  const int gpu;
  const bool has_timing;
  capstan::Mutex mu;
  // Its last recording; null if it was never recorded.
  std::shared_ptr<capstan::emulator::Moment> moment ABSL_GUARDED_BY(mu);
};

namespace capstan {
namespace emulator {

// The emulated machine of this process: its GPUs, their memory and streams, and their failures.
// There is one, as CUDA has no handle for it. Thread-safe; a stream's thread takes no lock of it.
class Machine {
 public:
  static Machine& Get();

  void Set(const MachineOptions& options);
  MachineOptions options();
  Clock& clock() { return clock_; }

  // Device memory of `gpu`, or page-locked host memory for kHost. Its bytes are all set to 0xff: a
  // NaN. Null if there is less left.
  static constexpr int kHost = -1;
  void* Allocate(int gpu, size_t bytes);
  // Waits for all streams of the GPU. False when `pointer` is not the start of such an allocation.
  bool Free(bool is_host, void* pointer);
  size_t AllocatedBytes(int gpu);
  // IsOnGpu: all the bytes lie in one allocation of `gpu`. TouchesGpu: one of them lies in an
  // allocation of a GPU.
  bool IsOnGpu(const void* data, size_t bytes, int gpu);
  bool TouchesGpu(const void* data, size_t bytes);

  CUstream_st* AddStream(int gpu);
  void RemoveStream(CUstream_st* stream);
  CUevent_st* AddEvent(int gpu, bool has_timing);
  void RemoveEvent(CUevent_st* event);
  bool IsStream(CUstream_st* stream);
  bool IsEvent(CUevent_st* event);

  // The failure of a GPU; nothing works there afterwards. cudaSuccess while it is well.
  cudaError_t fault(int gpu) const;
  void SetFault(int gpu, cudaError_t error);
  void SetKernelFault(int gpu, const std::string& text, cudaError_t error = cudaErrorLaunchFailure);
  std::string last_kernel_fault();

  // Queues an operation. It is left out if the GPU has failed by then, and fails if FailLaunch or
  // FailCopy says so.
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

#endif  // TESTS_CUDA_EMULATOR_MACHINE_H_
