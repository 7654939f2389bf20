#ifndef KERNELS_CUDA_KERNEL_WORKSPACE_H_
#define KERNELS_CUDA_KERNEL_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/device_buffer.h"
#include "kernels/cuda/kernel_cases.h"

namespace capstan {

// The arrays of a benchmark in a GPU's memory, with room for each of its cases. Not thread-safe.
class KernelWorkspace {
 public:
  struct Options {
    CudaStream* stream = nullptr;  // Required; outlives the workspace.
    int64_t elements = 0;          // in each array of floats
    int64_t rows = 0;              // Labels.
    size_t scratch_bytes = 0;
  };
  static absl::StatusOr<std::unique_ptr<KernelWorkspace>> Create(const Options& options);

  const KernelArrays& arrays() const { return arrays_; }

  // Queues new input for all arrays: the same numbers each time. Labels are below `columns`.
  absl::Status Refill(int64_t rows, int64_t columns);

  // Runs `kernel` once, with fresh input, on its first `rows` here and on the CPU. INTERNAL: the
  // results differ by more than its tolerance; the message names the place.
  absl::Status Check(const KernelCase& kernel, int64_t rows);

 private:
  explicit KernelWorkspace(const Options& options) : options_(options) {}
  absl::Status Allocate();
  absl::StatusOr<std::vector<float>> Download(int array, int64_t size);

  const Options options_;
  std::vector<DeviceBuffer> buffers_;
  KernelArrays arrays_;
  // Repeated in the arrays of floats: numbers of both signs, and positive ones.
  std::vector<float> signed_input_;
  std::vector<float> positive_input_;
  std::vector<int32_t> labels_;
};

}  // namespace capstan

#endif  // KERNELS_CUDA_KERNEL_WORKSPACE_H_
