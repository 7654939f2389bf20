#include "kernels/adam.h"

#include "kernels/adam_rule.h"

namespace capstan {

absl::Status ApplyAdam(const AdamCoefficients& coefficients, int64_t n,
                       const float* __restrict gradient, float* __restrict values,
                       float* __restrict first_moment, float* __restrict second_moment,
                       CpuStream& /*stream*/) {
  // A copy, which no store through the arrays can change.
  const AdamCoefficients constants = coefficients;
  for (int64_t i = 0; i < n; ++i) {
    AdamRule(constants, gradient[i], values[i], first_moment[i], second_moment[i]);
  }
  return absl::OkStatus();
}

}  // namespace capstan
