#ifndef KERNELS_NORM_H_
#define KERNELS_NORM_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace capstan {

class CpuStream;
class CudaStream;

struct NormResult {
  double sum_of_squares = 0;  // of the finite values, in float64
  int64_t non_finite = 0;     // number of NaN and infinite values
};

size_t SumOfSquaresScratchBytes(int64_t n, const CpuStream& stream);
size_t SumOfSquaresScratchBytes(int64_t n, const CudaStream& stream);

// The square of the Euclidean norm of the `n` values, and the number of non-finite ones. On a GPU
// the order of the sum depends on `n` only.
absl::Status SumOfSquares(int64_t n, const float* values, NormResult* result, void* scratch,
                          CpuStream& stream);
absl::Status SumOfSquares(int64_t n, const float* values, NormResult* result, void* scratch,
                          CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_NORM_H_
