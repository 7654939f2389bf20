#include "common/codec/bfloat16_codec.h"

#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/little_endian.h"
#include "common/base/status_macros.h"
#include "common/codec/codec_errors.h"
#include "common/codec/error_feedback.h"
#include "common/tensor/bfloat16.h"

// Compiles this file once for each kind of vectors. The CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/bfloat16_codec.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The bits of a float32 without its sign: integers, ordered as the absolute values are.
constexpr int32_t kMagnitude = 0x7fffffff;
constexpr int32_t kInfiniteMagnitude = 0x7f800000;
// Everything from here on is cut to the largest bfloat16.
constexpr int32_t kLargestMagnitude = 0x7f7fffff;

// The bfloat16 of a finite value, as an integer.
template <typename Tag>
HWY_INLINE hn::Vec<Tag> Rounded(Tag tag, hn::Vec<Tag> bits, hn::Vec<Tag> magnitude) {
  const hn::RebindToUnsigned<Tag> unsigned_tag;
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(tag, 1));
  const auto sum = hn::Add(hn::Add(magnitude, hn::Set(tag, 0x7fff)), odd);
  const auto cut = hn::Min(sum, hn::Set(tag, kLargestMagnitude));
  const auto with_sign = hn::Or(cut, hn::AndNot(hn::Set(tag, kMagnitude), bits));
  return hn::BitCast(tag, hn::ShiftRight<16>(hn::BitCast(unsigned_tag, with_sign)));
}

// `bytes` can start anywhere.
template <typename Tag>
HWY_INLINE void StoreBytes(hn::Vec<Tag> encoded, Tag /*tag*/, uint8_t* bytes) {
#if HWY_TARGET == HWY_SCALAR
  const uint16_t bits = hn::GetLane(encoded);
  std::memcpy(bytes, &bits, sizeof(bits));
#else
  const hn::Repartition<uint8_t, Tag> byte_tag;
  hn::StoreU(hn::BitCast(byte_tag, encoded), byte_tag, bytes);
#endif
}

// False if a value is not finite; the bytes are then undefined.
bool Encode(const float* HWY_RESTRICT values, size_t n, uint8_t* HWY_RESTRICT bytes) {
  const hn::ScalableTag<int32_t> tag;
  const hn::Rebind<float, decltype(tag)> float_tag;
  const hn::Rebind<uint16_t, decltype(tag)> encoded_tag;
  const size_t lanes = hn::Lanes(tag);
  const auto mask = hn::Set(tag, kMagnitude);
  auto largest = hn::Zero(tag);
  const auto encode = [&](const float* from) {
    const auto bits = hn::BitCast(tag, hn::LoadU(float_tag, from));
    const auto magnitude = hn::And(bits, mask);
    largest = hn::Max(largest, magnitude);
    return hn::DemoteTo(encoded_tag, Rounded(tag, bits, magnitude));
  };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    StoreBytes(encode(values + i), encoded_tag, bytes + 2 * i);
  }
  if (i < n) {
    HWY_ALIGN float padded[hn::MaxLanes(tag)] = {};
    HWY_ALIGN uint16_t encoded[hn::MaxLanes(tag)];
    std::memcpy(padded, values + i, (n - i) * sizeof(float));
    hn::Store(encode(padded), encoded_tag, encoded);
    std::memcpy(bytes + 2 * i, encoded, (n - i) * sizeof(uint16_t));
  }
  return hn::GetLane(hn::MaxOfLanes(tag, largest)) < kInfiniteMagnitude;
}

bool AreFinite(const uint8_t* bytes, size_t n) {
  uint16_t carries = 0;
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, sizeof(bits));
    // Only a full exponent carries into the sign.
    carries |= static_cast<uint16_t>((bits & 0x7f80) + 0x0080);
  }
  return carries >> 15 == 0;
}

HWY_INLINE float DecodedAt(const uint8_t* bytes, size_t i) {
  uint16_t bits;
  std::memcpy(&bits, bytes + 2 * i, sizeof(bits));
  const uint32_t widened = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &widened, sizeof(value));
  return value;
}

void Decode(const uint8_t* HWY_RESTRICT bytes, size_t n, float* HWY_RESTRICT values) {
  for (size_t i = 0; i < n; ++i) values[i] = DecodedAt(bytes, i);
}

void DecodeAdd(const uint8_t* HWY_RESTRICT bytes, size_t n, float* HWY_RESTRICT sum) {
  for (size_t i = 0; i < n; ++i) sum[i] += DecodedAt(bytes, i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan {

HWY_EXPORT(AreFinite);
HWY_EXPORT(Decode);
HWY_EXPORT(DecodeAdd);
HWY_EXPORT(Encode);

namespace {

class Bfloat16Codec final : public Codec {
 public:
  CodecType type() const override { return CodecType::kBfloat16; }
  std::string name() const override { return "bfloat16"; }
  size_t EncodedBytes(size_t n) const override { return n * sizeof(Bfloat16); }

  absl::StatusOr<Norms> Encode(absl::Span<const float> values, const DrawKey& /*key*/,
                               absl::Span<float> residual,
                               absl::Span<uint8_t> bytes) const override {
    CheckEncodeSpans(*this, values, residual, bytes);
    if (residual.empty()) {
      if (HWY_DYNAMIC_DISPATCH(Encode)(values.data(), values.size(), bytes.data())) return Norms();
      return NotFiniteError(values, residual);
    }
    return EncodeWithResidual(
        values, residual,
        [bytes](size_t begin, absl::Span<const float> sums, absl::Span<float> decoded) {
          uint8_t* const encoded = &bytes[begin * sizeof(Bfloat16)];
          HWY_DYNAMIC_DISPATCH(Encode)(sums.data(), sums.size(), encoded);
          HWY_DYNAMIC_DISPATCH(Decode)(encoded, decoded.size(), decoded.data());
        });
  }

  absl::Status Check(absl::Span<const uint8_t> bytes, size_t n) const override {
    RETURN_IF_ERROR(CheckEncodedLength(*this, bytes, n));
    if (HWY_DYNAMIC_DISPATCH(AreFinite)(bytes.data(), n)) return absl::OkStatus();
    size_t i = 0;
    while (std::isfinite(ToFloat32(At(bytes, i)))) ++i;
    return absl::InvalidArgumentError(absl::StrCat("expected finite bfloat16 values, got ",
                                                   ToFloat32(At(bytes, i)), " as element ", i));
  }

  void Decode(absl::Span<const uint8_t> bytes, size_t n, size_t begin,
              absl::Span<float> values) const override {
    CheckDecodeSpans(*this, bytes, n, begin, values.size());
    HWY_DYNAMIC_DISPATCH(Decode)
    (bytes.data() + begin * sizeof(Bfloat16), values.size(), values.data());
  }

  void DecodeAdd(absl::Span<const uint8_t> bytes, size_t n, size_t begin,
                 absl::Span<float> sum) const override {
    CheckDecodeSpans(*this, bytes, n, begin, sum.size());
    HWY_DYNAMIC_DISPATCH(DecodeAdd)
    (bytes.data() + begin * sizeof(Bfloat16), sum.size(), sum.data());
  }

 private:
  static Bfloat16 At(absl::Span<const uint8_t> bytes, size_t i) {
    return {ReadLittleEndian<uint16_t>(&bytes[i * sizeof(Bfloat16)])};
  }
};

}  // namespace

std::shared_ptr<const Codec> MakeBfloat16Codec() { return std::make_shared<Bfloat16Codec>(); }

}  // namespace capstan
#endif  // HWY_ONCE
