#ifndef KERNELS_CUDA_SUM_AND_COUNT_H_
#define KERNELS_CUDA_SUM_AND_COUNT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_stream.h"

// Sums over a whole array in two phases. Each block leaves one SumAndCount; one block adds them up,
// always in the same order.
namespace capstan {

struct SumAndCount {
  double sum;
  int64_t count;
};

// Queues the second phase of `operation`: *sum = the sum of the partials' sums, and *count
// likewise. Without partials both are 0. Errors name the operation.
absl::Status AddPartials(const char* operation, int64_t n, const SumAndCount* partials, double* sum,
                         int64_t* count, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_CUDA_SUM_AND_COUNT_H_
