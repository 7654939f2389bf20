#ifndef KERNELS_CUDA_DEVICE_TIMER_H_
#define KERNELS_CUDA_DEVICE_TIMER_H_

#include <cstddef>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_event.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/device_buffer.h"

namespace capstan {

// Times operations on a GPU, with nothing of their data in its caches. Not thread-safe.
class DeviceTimer {
 public:
  struct Options {
    CudaStream* stream = nullptr;  // Required; outlives the timer.
    int warm_ups = 3;              // Runs before the counted ones.
    int runs = 21;                 // Counted runs; at least 1.
    // Read before each run to push all else out of the L2 cache; larger than any. It is not
    // written, because writing it back would be charged to the run.
    size_t flush_bytes = size_t{256} << 20;
  };

  static absl::StatusOr<std::unique_ptr<DeviceTimer>> Create(const Options& options);

  // The median time of `operation`. It queues on the timer's stream.
  absl::StatusOr<double> MedianMilliseconds(absl::FunctionRef<absl::Status()> operation);

 private:
  DeviceTimer(const Options& options, CudaEvent begin, CudaEvent end);
  absl::Status AllocateFlushed();
  absl::Status FlushCache();
  absl::StatusOr<double> Milliseconds(absl::FunctionRef<absl::Status()> operation);

  const Options options_;
  DeviceBuffer flushed_;
  DeviceBuffer flush_result_;  // followed by the scratch memory of the reading
  CudaEvent begin_;
  CudaEvent end_;
};

}  // namespace capstan

#endif  // KERNELS_CUDA_DEVICE_TIMER_H_
