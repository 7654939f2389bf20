#include "kernels/momentum.h"

#include "kernels/momentum_rule.h"

namespace capstan {

absl::Status ApplyMomentum(const MomentumCoefficients& coefficients, int64_t n,
                           const float* __restrict gradient, float* __restrict values,
                           float* __restrict velocity, CpuStream& /*stream*/) {
  // A copy, which no store through the arrays can change.
  const MomentumCoefficients constants = coefficients;
  for (int64_t i = 0; i < n; ++i) MomentumRule(constants, gradient[i], values[i], velocity[i]);
  return absl::OkStatus();
}

}  // namespace capstan
