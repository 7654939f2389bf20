#ifndef KERNELS_CUDA_SUM_AND_COUNT_H_
#define KERNELS_CUDA_SUM_AND_COUNT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_stream.h"

// Sums over a whole array in two phases: each block leaves one SumAndCount, and one block adds
// those up, always in the same order. For .cu.cc files only.
namespace capstan {

struct SumAndCount {
  double sum;
  int64_t count;
};

// Queues *sum = the sum of the partials' sums, and *count likewise; 0 of none. Errors name
// `operation`, of which it is the second phase.
absl::Status AddPartials(const char* operation, int64_t n, const SumAndCount* partials, double* sum,
                         int64_t* count, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_CUDA_SUM_AND_COUNT_H_
