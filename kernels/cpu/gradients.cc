#include "kernels/cpu/gradients.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Compiles this file once for each kind of vectors. The CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gradients.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {

bool AllAreFinite(const float* values, size_t n) {
  // Only NaNs and infinities have all bits of the exponent set. If the exponent's lowest bit is
  // added, only they carry into the sign.
  constexpr uint32_t kExponent = 0x7f800000;
  constexpr uint32_t kLowest = 0x00800000;
  uint32_t sums = 0;
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof(bits));
    sums |= (bits & kExponent) + kLowest;
  }
  return sums >> 31 == 0;
}

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

HWY_EXPORT(AllAreFinite);
HWY_EXPORT(MeanOfSeveral);

bool IsFinite(absl::Span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(AllAreFinite)(values.data(), values.size());
}

void Mean(absl::Span<const float* const> terms, absl::Span<float> mean) {
  if (terms.size() == 1) {
    std::copy_n(terms[0], mean.size(), mean.data());
    return;
  }
  HWY_DYNAMIC_DISPATCH(MeanOfSeveral)(terms.data(), terms.size(), mean.size(), mean.data());
}

}  // namespace capstan
#endif  // HWY_ONCE
