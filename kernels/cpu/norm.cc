#include "kernels/norm.h"

#include <cmath>

namespace capstan {

size_t SumOfSquaresScratchBytes(int64_t /*n*/, const CpuStream& /*stream*/) { return 0; }

absl::Status SumOfSquares(int64_t n, const float* values, NormResult* result, void* /*scratch*/,
                          CpuStream& /*stream*/) {
  NormResult sum;
  for (int64_t i = 0; i < n; ++i) {
    const bool is_finite = std::isfinite(values[i]);
    const double value = is_finite ? values[i] : 0.0f;
    sum.sum_of_squares += value * value;
    sum.non_finite += is_finite ? 0 : 1;
  }
  *result = sum;
  return absl::OkStatus();
}

}  // namespace capstan
