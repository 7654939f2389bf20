#include "kernels/cpu/is_finite.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

// Compiles this file once for each kind of vectors, of which the CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/is_finite.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {

bool AllAreFinite(const float* values, size_t n) {
  // NaNs and infinities alone have all bits of the exponent set: with its lowest bit added, just
  // those carry into the sign.
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

}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan {

HWY_EXPORT(AllAreFinite);

bool IsFinite(absl::Span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(AllAreFinite)(values.data(), values.size());
}

}  // namespace capstan
#endif  // HWY_ONCE
