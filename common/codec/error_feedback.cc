#include "common/codec/error_feedback.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/codec/codec_errors.h"

// Compiles this file once for each kind of vectors. The CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/error_feedback.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Only NaNs and infinities have all bits of the exponent set. If the exponent's lowest bit is
// added, only they carry into the sign.
bool SumsAreFinite(const float* values, const float* residual, size_t n) {
  uint32_t carries = 0;
  for (size_t i = 0; i < n; ++i) {
    const float sum = values[i] + residual[i];
    uint32_t bits;
    std::memcpy(&bits, &sum, sizeof(bits));
    carries |= (bits & 0x7f800000) + 0x00800000;
  }
  return carries >> 31 == 0;
}

void Add(const float* HWY_RESTRICT values, const float* HWY_RESTRICT residual, size_t n,
         float* HWY_RESTRICT sums) {
  for (size_t i = 0; i < n; ++i) sums[i] = values[i] + residual[i];
}

void Subtract(const float* HWY_RESTRICT sums, const float* HWY_RESTRICT decoded, size_t n,
              float* HWY_RESTRICT residual) {
  for (size_t i = 0; i < n; ++i) residual[i] = sums[i] - decoded[i];
}

double SquareSum(const float* values, size_t n) {
  const hn::ScalableTag<double> tag;
  const hn::Rebind<float, decltype(tag)> float_tag;
  const size_t lanes = hn::Lanes(tag);
  auto even = hn::Zero(tag);
  auto odd = hn::Zero(tag);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = hn::PromoteTo(tag, hn::LoadU(float_tag, values + i));
    const auto b = hn::PromoteTo(tag, hn::LoadU(float_tag, values + i + lanes));
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  double sum = hn::GetLane(hn::SumOfLanes(tag, hn::Add(even, odd)));
  for (; i < n; ++i) sum += double{values[i]} * values[i];
  return sum;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan {

HWY_EXPORT(Add);
HWY_EXPORT(SquareSum);
HWY_EXPORT(Subtract);
HWY_EXPORT(SumsAreFinite);

namespace {

// The arrays of a piece stay in the L1 cache.
constexpr size_t kPiece = 2048;

}  // namespace

absl::StatusOr<Codec::Norms> EncodeWithResidual(absl::Span<const float> values,
                                                absl::Span<float> residual, EncodeSums encode) {
  const size_t n = values.size();
  Codec::Norms norms;
  for (size_t begin = 0; begin < n; begin += kPiece) {
    const size_t size = std::min(kPiece, n - begin);
    if (!HWY_DYNAMIC_DISPATCH(SumsAreFinite)(&values[begin], &residual[begin], size)) {
      return NotFiniteError(values, residual);
    }
    norms.gradient += HWY_DYNAMIC_DISPATCH(SquareSum)(&values[begin], size);
  }
  HWY_ALIGN float sums[kPiece];
  HWY_ALIGN float decoded[kPiece];
  for (size_t begin = 0; begin < n; begin += kPiece) {
    const size_t size = std::min(kPiece, n - begin);
    float* const new_residual = &residual[begin];
    HWY_DYNAMIC_DISPATCH(Add)(&values[begin], new_residual, size, sums);
    encode(begin, absl::MakeConstSpan(sums, size), absl::MakeSpan(decoded, size));
    HWY_DYNAMIC_DISPATCH(Subtract)(sums, decoded, size, new_residual);
    norms.residual += HWY_DYNAMIC_DISPATCH(SquareSum)(new_residual, size);
  }
  return norms;
}

}  // namespace capstan
#endif  // HWY_ONCE
