#include "kernels/adagrad.h"

#include "kernels/adagrad_rule.h"

// Compiles this file once for each kind of vectors, of which the CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adagrad.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {

// `constants` is a copy, which no store through the arrays can change.
void UpdateAdagrad(AdagradCoefficients constants, int64_t n, const float* __restrict gradient,
                   float* __restrict values, float* __restrict squares) {
  for (int64_t i = 0; i < n; ++i) AdagradRule(constants, gradient[i], values[i], squares[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan {

HWY_EXPORT(UpdateAdagrad);

absl::Status ApplyAdagrad(const AdagradCoefficients& coefficients, int64_t n, const float* gradient,
                          float* values, float* squares, CpuStream& /*stream*/) {
  HWY_DYNAMIC_DISPATCH(UpdateAdagrad)(coefficients, n, gradient, values, squares);
  return absl::OkStatus();
}

}  // namespace capstan
#endif  // HWY_ONCE
