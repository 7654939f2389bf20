#include "common/codec/int8_blocks.h"

#include <algorithm>
#include <cstring>

// Compiles this file once for each kind of vectors. The CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/int8_blocks.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "common/codec/draw_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int32_t kInfiniteMagnitude = 0x7f800000;
// Blocks of smaller values are all zero.
constexpr float kSmallestMax = 0x1p-100f;
// A float32 of this size has the bits of an integer in its lowest ones.
constexpr float kIntegerBits = 0x1.8p23f;

HWY_INLINE float FloatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The largest magnitude of a block: the bits of an absolute value, ordered as the values are.
HWY_INLINE int32_t LargestMagnitude(const float* HWY_RESTRICT values) {
  const hn::ScalableTag<int32_t> tag;
  const hn::ScalableTag<float> float_tag;
  const size_t lanes = hn::Lanes(tag);
  const auto mask = hn::Set(tag, 0x7fffffff);
  auto even = hn::Zero(tag);
  auto odd = hn::Zero(tag);
  for (size_t i = 0; i < kInt8Block; i += 2 * lanes) {
    const auto a = hn::BitCast(tag, hn::LoadU(float_tag, values + i));
    const auto b = hn::BitCast(tag, hn::LoadU(float_tag, values + i + lanes));
    even = hn::Max(even, hn::And(a, mask));
    odd = hn::Max(odd, hn::And(b, mask));
  }
  return hn::GetLane(hn::MaxOfLanes(tag, hn::Max(even, odd)));
}

// bytes[i] = clamp(floor(values[i] * inverse + draw i))
HWY_INLINE void Quantize(const float* HWY_RESTRICT values, float inverse,
                         const uint16_t* HWY_RESTRICT draws, uint8_t* HWY_RESTRICT bytes) {
  const hn::ScalableTag<float> tag;
  const hn::RebindToSigned<decltype(tag)> int_tag;
  const hn::RebindToUnsigned<decltype(tag)> bits_tag;
  const hn::Rebind<uint16_t, decltype(tag)> draw_tag;
  const hn::Rebind<uint8_t, decltype(tag)> byte_tag;
  const size_t lanes = hn::Lanes(tag);
  const auto inverses = hn::Set(tag, inverse);
  const auto largest = hn::Set(tag, 127.0f);
  const auto smallest = hn::Set(tag, -127.0f);
  const auto unit = hn::Set(tag, 0x1p-16f);
  const auto half_unit = hn::Set(tag, 0x1p-17f);
  const auto integer_bits = hn::Set(tag, kIntegerBits);
  for (size_t i = 0; i < kInt8Block; i += lanes) {
    const auto scaled = hn::Mul(hn::LoadU(tag, values + i), inverses);
    const auto draw = hn::ConvertTo(tag, hn::PromoteTo(int_tag, hn::Load(draw_tag, draws + i)));
    // Exact, so fusing changes nothing.
    const auto u = hn::MulAdd(draw, unit, half_unit);
    const auto rounded = hn::Floor(hn::Add(scaled, u));
    const auto q = hn::Min(hn::Max(rounded, smallest), largest);
    const auto bits = hn::BitCast(bits_tag, hn::Add(q, integer_bits));
    hn::StoreU(hn::TruncateTo(byte_tag, bits), byte_tag, bytes + i);
  }
}

// A whole block. False if a value is not finite.
HWY_INLINE bool EncodeBlock(const float* HWY_RESTRICT values, const DrawVectors& draws,
                            uint64_t first_draws, uint8_t* HWY_RESTRICT bytes) {
  const int32_t magnitude = LargestMagnitude(values);
  if (magnitude >= kInfiniteMagnitude) return false;
  const float max = FloatOfBits(static_cast<uint32_t>(magnitude));
  const bool is_zero = max < kSmallestMax;
  const float scale = is_zero ? 0 : std::min(max / 127, FloatOfBits(kLargestInt8Scale));
  std::memcpy(bytes, &scale, sizeof(scale));
  HWY_ALIGN uint16_t drawn[kInt8Block];
  draws.Draw<kInt8Block>(first_draws, drawn);
  Quantize(values, is_zero ? 0 : 127 / max, drawn, bytes + kInt8ScaleBytes);
  return true;
}

bool EncodeBlocks(const float* HWY_RESTRICT values, size_t n, size_t begin,
                  const SliceDraws& slice_draws, uint8_t* HWY_RESTRICT bytes) {
  const DrawVectors draws(slice_draws);
  uint64_t first_draws = slice_draws.BlockAt(begin);
  for (; n >= kInt8Block; n -= kInt8Block) {
    if (!EncodeBlock(values, draws, first_draws, bytes)) return false;
    values += kInt8Block;
    bytes += kInt8BlockBytes;
    first_draws += kInt8Block / SliceDraws::kPerBlock;
  }
  if (n == 0) return true;
  float padded[kInt8Block] = {};
  uint8_t padded_bytes[kInt8BlockBytes];
  std::memcpy(padded, values, n * sizeof(float));
  if (!EncodeBlock(padded, draws, first_draws, padded_bytes)) return false;
  std::memcpy(bytes, padded_bytes, kInt8ScaleBytes + n);
  return true;
}

template <bool kAdd>
HWY_INLINE void DecodeBlocks(const uint8_t* HWY_RESTRICT bytes, size_t n,
                             float* HWY_RESTRICT values) {
  const hn::ScalableTag<float> tag;
  const hn::RebindToSigned<decltype(tag)> int_tag;
  const hn::Rebind<int8_t, decltype(tag)> byte_tag;
  const size_t lanes = hn::Lanes(tag);
  for (size_t begin = 0; begin < n; begin += kInt8Block) {
    float scale;
    std::memcpy(&scale, bytes, sizeof(scale));
    const auto* encoded = reinterpret_cast<const int8_t*>(bytes + kInt8ScaleBytes);
    const auto scales = hn::Set(tag, scale);
    const size_t size = std::min(kInt8Block, n - begin);
    size_t i = 0;
    for (; i + lanes <= size; i += lanes) {
      const auto q = hn::ConvertTo(tag, hn::PromoteTo(int_tag, hn::LoadU(byte_tag, encoded + i)));
      auto value = hn::Mul(q, scales);
      if constexpr (kAdd) value = hn::Add(hn::LoadU(tag, values + i), value);
      hn::StoreU(value, tag, values + i);
    }
    for (; i < size; ++i) {
      const float value = static_cast<float>(encoded[i]) * scale;
      values[i] = kAdd ? values[i] + value : value;
    }
    bytes += kInt8BlockBytes;
    values += kInt8Block;
  }
}

void Decode(const uint8_t* bytes, size_t n, float* values) {
  DecodeBlocks</*kAdd=*/false>(bytes, n, values);
}

void DecodeAdd(const uint8_t* bytes, size_t n, float* sum) {
  DecodeBlocks</*kAdd=*/true>(bytes, n, sum);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan {

HWY_EXPORT(Decode);
HWY_EXPORT(DecodeAdd);
HWY_EXPORT(EncodeBlocks);

bool EncodeInt8Blocks(const float* values, size_t n, size_t begin, const SliceDraws& draws,
                      uint8_t* bytes) {
  return HWY_DYNAMIC_DISPATCH(EncodeBlocks)(values, n, begin, draws, bytes);
}

void DecodeInt8Blocks(const uint8_t* bytes, size_t n, float* values) {
  HWY_DYNAMIC_DISPATCH(Decode)(bytes, n, values);
}

void DecodeAddInt8Blocks(const uint8_t* bytes, size_t n, float* sum) {
  HWY_DYNAMIC_DISPATCH(DecodeAdd)(bytes, n, sum);
}

}  // namespace capstan
#endif  // HWY_ONCE
