#include "kernels/optimizers.h"

// Compiles this file once for each kind of vectors. The CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizers.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {

// `rule` is a copy: no store through the arrays can change it.

void UpdateSgd(SgdRule rule, int64_t n, const float* __restrict gradient,
               float* __restrict values) {
  for (int64_t i = 0; i < n; ++i) rule(gradient[i], values[i]);
}

void UpdateMomentum(MomentumRule rule, int64_t n, const float* __restrict gradient,
                    float* __restrict values, float* __restrict velocity) {
  for (int64_t i = 0; i < n; ++i) rule(gradient[i], values[i], velocity[i]);
}

void UpdateNesterov(NesterovRule rule, int64_t n, const float* __restrict gradient,
                    float* __restrict values, float* __restrict velocity) {
  for (int64_t i = 0; i < n; ++i) rule(gradient[i], values[i], velocity[i]);
}

void UpdateAdagrad(AdagradRule rule, int64_t n, const float* __restrict gradient,
                   float* __restrict values, float* __restrict square_sums) {
  for (int64_t i = 0; i < n; ++i) rule(gradient[i], values[i], square_sums[i]);
}

void UpdateAdam(AdamRule rule, int64_t n, const float* __restrict gradient,
                float* __restrict values, float* __restrict first, float* __restrict second) {
  for (int64_t i = 0; i < n; ++i) rule(gradient[i], values[i], first[i], second[i]);
}

void UpdateAdamW(AdamWRule rule, int64_t n, const float* __restrict gradient,
                 float* __restrict values, float* __restrict first, float* __restrict second) {
  for (int64_t i = 0; i < n; ++i) rule(gradient[i], values[i], first[i], second[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan {
namespace {

HWY_EXPORT(UpdateSgd);
HWY_EXPORT(UpdateMomentum);
HWY_EXPORT(UpdateNesterov);
HWY_EXPORT(UpdateAdagrad);
HWY_EXPORT(UpdateAdam);
HWY_EXPORT(UpdateAdamW);

// The function of a rule, for the vectors of this CPU.
auto UpdateOf(const SgdRule&) { return HWY_DYNAMIC_DISPATCH(UpdateSgd); }
auto UpdateOf(const MomentumRule&) { return HWY_DYNAMIC_DISPATCH(UpdateMomentum); }
auto UpdateOf(const NesterovRule&) { return HWY_DYNAMIC_DISPATCH(UpdateNesterov); }
auto UpdateOf(const AdagradRule&) { return HWY_DYNAMIC_DISPATCH(UpdateAdagrad); }
auto UpdateOf(const AdamRule&) { return HWY_DYNAMIC_DISPATCH(UpdateAdam); }
auto UpdateOf(const AdamWRule&) { return HWY_DYNAMIC_DISPATCH(UpdateAdamW); }

}  // namespace

template <typename Rule>
absl::Status ApplyRule(const Rule& rule, int64_t n, const float* gradient,
                       float* const (&arrays)[1 + Rule::kStateCount], CpuStream& /*stream*/) {
  const auto update = UpdateOf(rule);
  if constexpr (Rule::kStateCount == 0) update(rule, n, gradient, arrays[0]);
  if constexpr (Rule::kStateCount == 1) update(rule, n, gradient, arrays[0], arrays[1]);
  if constexpr (Rule::kStateCount == 2) update(rule, n, gradient, arrays[0], arrays[1], arrays[2]);
  return absl::OkStatus();
}

template absl::Status ApplyRule(const SgdRule&, int64_t, const float*, float* const (&)[1],
                                CpuStream&);
template absl::Status ApplyRule(const MomentumRule&, int64_t, const float*, float* const (&)[2],
                                CpuStream&);
template absl::Status ApplyRule(const NesterovRule&, int64_t, const float*, float* const (&)[2],
                                CpuStream&);
template absl::Status ApplyRule(const AdagradRule&, int64_t, const float*, float* const (&)[2],
                                CpuStream&);
template absl::Status ApplyRule(const AdamRule&, int64_t, const float*, float* const (&)[3],
                                CpuStream&);
template absl::Status ApplyRule(const AdamWRule&, int64_t, const float*, float* const (&)[3],
                                CpuStream&);

}  // namespace capstan
#endif  // HWY_ONCE
