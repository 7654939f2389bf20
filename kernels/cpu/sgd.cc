#include "kernels/sgd.h"

#include "kernels/sgd_rule.h"

namespace capstan {

absl::Status ApplySgd(const SgdCoefficients& coefficients, int64_t n,
                      const float* __restrict gradient, float* __restrict values,
                      CpuStream& /*stream*/) {
  // A copy, which no store through the arrays can change.
  const SgdCoefficients constants = coefficients;
  for (int64_t i = 0; i < n; ++i) SgdRule(constants, gradient[i], values[i]);
  return absl::OkStatus();
}

}  // namespace capstan
