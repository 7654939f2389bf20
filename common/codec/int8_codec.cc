#include "common/codec/int8_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/little_endian.h"
#include "common/base/status_macros.h"
#include "common/codec/codec_errors.h"
#include "common/codec/draws.h"
#include "common/codec/error_feedback.h"
#include "common/codec/int8_blocks.h"

namespace capstan {
namespace {

size_t BlockOffset(size_t element) { return element / kInt8Block * kInt8BlockBytes; }

float FloatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The block of `size` bytes, with its scale, decodes to finite values.
bool BlockIsFinite(const uint8_t* block, size_t size) {
  const uint32_t scale = ReadLittleEndian<uint32_t>(block);
  // Negative scales, infinities and NaNs have larger bits too.
  if (scale > kLargestInt8Scale) return false;
  return std::isfinite(FloatOfBits(scale) * -128) ||
         std::memchr(block + kInt8ScaleBytes, 0x80, size - kInt8ScaleBytes) == nullptr;
}

class Int8Codec final : public Codec {
 public:
  CodecType type() const override { return CodecType::kInt8; }
  std::string name() const override { return "int8"; }
  size_t EncodedBytes(size_t n) const override {
    return n + (n + kInt8Block - 1) / kInt8Block * kInt8ScaleBytes;
  }

  absl::StatusOr<Norms> Encode(absl::Span<const float> values, const DrawKey& key,
                               absl::Span<float> residual,
                               absl::Span<uint8_t> bytes) const override {
    CheckEncodeSpans(*this, values, residual, bytes);
    const SliceDraws draws(key);
    if (residual.empty()) {
      if (EncodeInt8Blocks(values.data(), values.size(), /*begin=*/0, draws, bytes.data())) {
        return Norms();
      }
      return NotFiniteError(values, residual);
    }
    return EncodeWithResidual(
        values, residual,
        [&](size_t begin, absl::Span<const float> sums, absl::Span<float> decoded) {
          uint8_t* const blocks = bytes.data() + BlockOffset(begin);
          EncodeInt8Blocks(sums.data(), sums.size(), begin, draws, blocks);
          DecodeInt8Blocks(blocks, decoded.size(), decoded.data());
        });
  }

  absl::Status Check(absl::Span<const uint8_t> bytes, size_t n) const override {
    RETURN_IF_ERROR(CheckEncodedLength(*this, bytes, n));
    for (size_t at = 0; at < bytes.size(); at += kInt8BlockBytes) {
      if (BlockIsFinite(&bytes[at], std::min(kInt8BlockBytes, bytes.size() - at))) continue;
      const auto scale = ReadLittleEndian<uint32_t>(&bytes[at]);
      if (scale <= kLargestInt8Scale) {
        return absl::InvalidArgumentError(
            absl::StrCat("expected finite values, but the block at byte ", at,
                         " has the byte -128 and the scale ", FloatOfBits(scale)));
      }
      return absl::InvalidArgumentError(
          absl::StrFormat("expected a scale from 0 to %.9g, got %.9g at byte %d",
                          FloatOfBits(kLargestInt8Scale), FloatOfBits(scale), at));
    }
    return absl::OkStatus();
  }

  void Decode(absl::Span<const uint8_t> bytes, size_t n, size_t begin,
              absl::Span<float> values) const override {
    CheckDecodeSpans(*this, bytes, n, begin, values.size());
    DecodeInt8Blocks(bytes.data() + BlockOffset(begin), values.size(), values.data());
  }

  void DecodeAdd(absl::Span<const uint8_t> bytes, size_t n, size_t begin,
                 absl::Span<float> sum) const override {
    CheckDecodeSpans(*this, bytes, n, begin, sum.size());
    DecodeAddInt8Blocks(bytes.data() + BlockOffset(begin), sum.size(), sum.data());
  }
};

}  // namespace

std::shared_ptr<const Codec> MakeInt8Codec() { return std::make_shared<Int8Codec>(); }

}  // namespace capstan
