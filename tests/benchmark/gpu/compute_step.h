#ifndef TESTS_BENCHMARK_GPU_COMPUTE_STEP_H_
#define TESTS_BENCHMARK_GPU_COMPUTE_STEP_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/cuda/cuda_device.h"
#include "worker/models/training/mlp.h"

namespace capstan {

struct ComputeStep {
  std::vector<int64_t> widths;  // of an Mlp
  int64_t samples = 0;
  Precision precision = Precision::kFloat32;
};

// Times `runs` forward and backward passes on a GPU by the GPU's clock, after a few passes to warm
// up. Batch, parameters and gradients stay on the GPU.
absl::StatusOr<std::vector<absl::Duration>> TimeComputeSteps(const ComputeStep& step, int runs,
                                                             const CudaDevice& device);

// Floating-point operations of the matrix products of one forward and one backward pass.
double ComputeStepFlops(const ComputeStep& step);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_GPU_COMPUTE_STEP_H_
