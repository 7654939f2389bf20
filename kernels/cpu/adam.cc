#include "kernels/adam.h"

#include "kernels/adam_rule.h"

// Compiles this file once for each kind of vectors, of which the CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adam.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {

// `constants` is a copy, which no store through the arrays can change.
void UpdateAdam(AdamCoefficients constants, int64_t n, const float* __restrict gradient,
                float* __restrict values, float* __restrict first_moment,
                float* __restrict second_moment) {
  for (int64_t i = 0; i < n; ++i) {
    AdamRule(constants, gradient[i], values[i], first_moment[i], second_moment[i]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan {

HWY_EXPORT(UpdateAdam);

absl::Status ApplyAdam(const AdamCoefficients& coefficients, int64_t n, const float* gradient,
                       float* values, float* first_moment, float* second_moment,
                       CpuStream& /*stream*/) {
  HWY_DYNAMIC_DISPATCH(UpdateAdam)(coefficients, n, gradient, values, first_moment, second_moment);
  return absl::OkStatus();
}

}  // namespace capstan
#endif  // HWY_ONCE
