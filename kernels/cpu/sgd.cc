#include "kernels/sgd.h"

#include "kernels/sgd_rule.h"

// Compiles this file once for each kind of vectors, of which the CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sgd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {

// `constants` is a copy, which no store through the arrays can change.
void UpdateSgd(SgdCoefficients constants, int64_t n, const float* __restrict gradient,
               float* __restrict values) {
  for (int64_t i = 0; i < n; ++i) SgdRule(constants, gradient[i], values[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan {

HWY_EXPORT(UpdateSgd);

absl::Status ApplySgd(const SgdCoefficients& coefficients, int64_t n, const float* gradient,
                      float* values, CpuStream& /*stream*/) {
  HWY_DYNAMIC_DISPATCH(UpdateSgd)(coefficients, n, gradient, values);
  return absl::OkStatus();
}

}  // namespace capstan
#endif  // HWY_ONCE
