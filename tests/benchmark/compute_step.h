#ifndef TESTS_BENCHMARK_COMPUTE_STEP_H_
#define TESTS_BENCHMARK_COMPUTE_STEP_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/cuda/cuda_device.h"
#include "worker/training/mlp.h"

namespace capstan {

struct ComputeStep {
  std::vector<int64_t> widths;  // of an Mlp
  int64_t samples = 0;
  Precision precision = Precision::kFloat32;
};

// Times of `runs` forward and backward passes on a GPU, after a few that are not counted, by the
// GPU's clock: batch and parameters are there, gradients stay there.
absl::StatusOr<std::vector<absl::Duration>> TimeComputeSteps(const ComputeStep& step, int runs,
                                                             const CudaDevice& device);

// Floating-point operations of the matrix products of one pass forward and backward.
double ComputeStepFlops(const ComputeStep& step);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_COMPUTE_STEP_H_
