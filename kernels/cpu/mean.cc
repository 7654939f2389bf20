#include "kernels/cpu/mean.h"

#include <algorithm>
#include <cstddef>

// Compiles this file once for each kind of vectors, of which the CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mean.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {

void MeanOfSeveral(const float* const* terms, size_t count, size_t n, float* mean) {
  const hwy::HWY_NAMESPACE::ScalableTag<float> tag;
  const size_t lanes = Lanes(tag);
  const auto divisor = Set(tag, static_cast<float>(count));
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto sum = LoadU(tag, terms[0] + i);
    for (size_t term = 1; term < count; ++term) sum = Add(sum, LoadU(tag, terms[term] + i));
    StoreU(Div(sum, divisor), tag, mean + i);
  }
  for (; i < n; ++i) {
    float sum = terms[0][i];
    for (size_t term = 1; term < count; ++term) sum += terms[term][i];
    mean[i] = sum / static_cast<float>(count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan {

HWY_EXPORT(MeanOfSeveral);

void Mean(absl::Span<const float* const> terms, absl::Span<float> mean) {
  if (terms.size() == 1) {
    std::copy_n(terms[0], mean.size(), mean.data());
    return;
  }
  HWY_DYNAMIC_DISPATCH(MeanOfSeveral)(terms.data(), terms.size(), mean.size(), mean.data());
}

}  // namespace capstan
#endif  // HWY_ONCE
