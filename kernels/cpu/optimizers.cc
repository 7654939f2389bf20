#include "kernels/optimizers.h"

#include <cstddef>
#include <tuple>
#include <utility>

// This file is compiled once for each kind of vectors. The CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizers.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef KERNELS_CPU_OPTIMIZERS_CC_
#define KERNELS_CPU_OPTIMIZERS_CC_
namespace capstan {
namespace {

template <typename Rule>
using UpdateOf = void (*)(const Rule& rule, int64_t n, const float* gradient,
                          float* const (&arrays)[1 + Rule::kStateCount]);
template <typename... Rule>
struct Rules {
  using Updates = std::tuple<UpdateOf<Rule>...>;
};
using AllRules = Rules<SgdRule, MomentumRule, NesterovRule, AdagradRule, AdamRule, AmsgradRule,
                       AdamWRule, AmsgradWRule, RmspropRule<false, false>, RmspropRule<false, true>,
                       RmspropRule<true, false>, RmspropRule<true, true>, LionRule>;

}  // namespace
}  // namespace capstan
#endif  // KERNELS_CPU_OPTIMIZERS_CC_

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {

// `rule` is a copy: no store through the arrays can change it. Inlined, the arrays would lose their
// __restrict.
template <typename Rule, typename... Array>
HWY_NOINLINE void UpdateElements(Rule rule, int64_t n, const float* __restrict gradient,
                                 Array* __restrict... arrays) {
  for (int64_t i = 0; i < n; ++i) rule(gradient[i], arrays[i]...);
}

template <typename Rule, size_t... j>
void UpdateArrays(const Rule& rule, int64_t n, const float* gradient, float* const* arrays,
                  std::index_sequence<j...>) {
  UpdateElements(rule, n, gradient, arrays[j]...);
}

template <typename Rule>
void Update(const Rule& rule, int64_t n, const float* gradient,
            float* const (&arrays)[1 + Rule::kStateCount]) {
  UpdateArrays(rule, n, gradient, arrays, std::make_index_sequence<1 + Rule::kStateCount>());
}

template <typename... Rule>
std::tuple<UpdateOf<Rule>...> UpdatesOf(Rules<Rule...>) {
  return {Update<Rule>...};
}

AllRules::Updates AllUpdates() { return UpdatesOf(AllRules()); }

}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan {

HWY_EXPORT(AllUpdates);

template <typename Rule>
absl::Status ApplyRule(const Rule& rule, int64_t n, const float* gradient,
                       float* const (&arrays)[1 + Rule::kStateCount], CpuStream& /*stream*/) {
  std::get<UpdateOf<Rule>>(HWY_DYNAMIC_DISPATCH(AllUpdates)())(rule, n, gradient, arrays);
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
template absl::Status ApplyRule(const AmsgradRule&, int64_t, const float*, float* const (&)[4],
                                CpuStream&);
template absl::Status ApplyRule(const AdamWRule&, int64_t, const float*, float* const (&)[3],
                                CpuStream&);
template absl::Status ApplyRule(const AmsgradWRule&, int64_t, const float*, float* const (&)[4],
                                CpuStream&);
template absl::Status ApplyRule(const RmspropRule<false, false>&, int64_t, const float*,
                                float* const (&)[2], CpuStream&);
template absl::Status ApplyRule(const RmspropRule<false, true>&, int64_t, const float*,
                                float* const (&)[3], CpuStream&);
template absl::Status ApplyRule(const RmspropRule<true, false>&, int64_t, const float*,
                                float* const (&)[3], CpuStream&);
template absl::Status ApplyRule(const RmspropRule<true, true>&, int64_t, const float*,
                                float* const (&)[4], CpuStream&);
template absl::Status ApplyRule(const LionRule&, int64_t, const float*, float* const (&)[2],
                                CpuStream&);

}  // namespace capstan
#endif  // HWY_ONCE
