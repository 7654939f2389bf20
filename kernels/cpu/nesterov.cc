#include "kernels/nesterov.h"

#include "kernels/nesterov_rule.h"

// Compiles this file once for each kind of vectors, of which the CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/nesterov.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {

// `constants` is a copy, which no store through the arrays can change.
void UpdateNesterov(NesterovCoefficients constants, int64_t n, const float* __restrict gradient,
                    float* __restrict values, float* __restrict velocity) {
  for (int64_t i = 0; i < n; ++i) NesterovRule(constants, gradient[i], values[i], velocity[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan {

HWY_EXPORT(UpdateNesterov);

absl::Status ApplyNesterov(const NesterovCoefficients& coefficients, int64_t n,
                           const float* gradient, float* values, float* velocity,
                           CpuStream& /*stream*/) {
  HWY_DYNAMIC_DISPATCH(UpdateNesterov)(coefficients, n, gradient, values, velocity);
  return absl::OkStatus();
}

}  // namespace capstan
#endif  // HWY_ONCE
