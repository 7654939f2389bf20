#include "kernels/adagrad.h"

#include "kernels/adagrad_rule.h"

namespace capstan {

absl::Status ApplyAdagrad(const AdagradCoefficients& coefficients, int64_t n,
                          const float* __restrict gradient, float* __restrict values,
                          float* __restrict squares, CpuStream& /*stream*/) {
  // A copy, which no store through the arrays can change.
  const AdagradCoefficients constants = coefficients;
  for (int64_t i = 0; i < n; ++i) AdagradRule(constants, gradient[i], values[i], squares[i]);
  return absl::OkStatus();
}

}  // namespace capstan
