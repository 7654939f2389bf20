#include "common/codec/topk_codec.h"

#include <glog/logging.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/codec_errors.h"
#include "common/codec/topk_select.h"

namespace capstan {
namespace {

using Bytes = absl::Span<const uint8_t>;

CodecType TypeWithValues(CodecType values) {
  switch (values) {
    case CodecType::kBfloat16:
      return CodecType::kTopkBfloat16;
    case CodecType::kInt8:
      return CodecType::kTopkInt8;
    case CodecType::kFloat32:
    case CodecType::kTopkFloat32:
    case CodecType::kTopkBfloat16:
    case CodecType::kTopkInt8:
    case CodecType::kChanged:
      break;
  }
  CHECK(values == CodecType::kFloat32) << "topk of topk";
  return CodecType::kTopkFloat32;
}

// MakeCodec reads it as the same number.
std::string RatioOrCountText(double ratio_or_count) {
  if (ratio_or_count >= 1) return absl::StrCat(static_cast<uint64_t>(ratio_or_count));
  char text[32];
  const auto [end, error] = std::to_chars(std::begin(text), std::end(text), ratio_or_count);
  CHECK(error == std::errc());
  return std::string(text, end);
}

// The encoded indices: unaligned, little-endian as every CPU that we run on.
class Indices {
 public:
  Indices(Bytes bytes, size_t k) : bytes_(bytes.data()), k_(k) {}

  size_t size() const { return k_; }
  uint32_t operator[](size_t j) const {
    uint32_t index;
    std::memcpy(&index, bytes_ + j * sizeof(index), sizeof(index));
    return index;
  }

  // How many of [begin, end) are below `bound`. Without branches: they would be mispredicted.
  size_t CountBelow(size_t bound, size_t begin, size_t end) const {
    size_t first = begin;
    for (size_t size = end - begin; size > 0;) {
      const size_t half = (size + 1) / 2;
      first += (*this)[first + half - 1] < bound ? half : 0;
      size -= half;
    }
    return first - begin;
  }

 private:
  const uint8_t* bytes_;
  size_t k_;
};

class TopkCodec final : public Codec {
 public:
  TopkCodec(double ratio_or_count, std::shared_ptr<const Codec> values)
      : ratio_or_count_(ratio_or_count),
        values_(std::move(values)),
        type_(TypeWithValues(values_->type())) {
    CHECK(ratio_or_count > 0 && ratio_or_count <= UINT32_MAX) << ratio_or_count;
    CHECK(ratio_or_count < 1 || ratio_or_count == std::floor(ratio_or_count)) << ratio_or_count;
  }

  CodecType type() const override { return type_; }
  std::string name() const override;
  size_t EncodedBytes(size_t n) const override;
  size_t SentCount(size_t n) const override;
  absl::StatusOr<Norms> Encode(absl::Span<const float> values, const DrawKey& key,
                               absl::Span<float> residual,
                               absl::Span<uint8_t> bytes) const override;
  absl::Status Check(Bytes bytes, size_t n) const override;
  void Decode(Bytes bytes, size_t n, size_t begin, absl::Span<float> values) const override;
  void DecodeAdd(Bytes bytes, size_t n, size_t begin, absl::Span<float> sum) const override;

 private:
  absl::Status CheckValues(Bytes bytes, size_t k) const;
  // Calls set(part[i], decoded value) if element begin + i was sent.
  template <typename Set>
  void ForEachSent(Bytes bytes, size_t n, size_t begin, absl::Span<float> part,
                   const Set& set) const;

  const double ratio_or_count_;
  const std::shared_ptr<const Codec> values_;
  const CodecType type_;
};

std::string TopkCodec::name() const {
  const std::string name = absl::StrCat("topk:", RatioOrCountText(ratio_or_count_));
  return type_ == CodecType::kTopkFloat32 ? name : absl::StrCat(name, ":", values_->name());
}

size_t TopkCodec::SentCount(size_t n) const {
  if (ratio_or_count_ >= 1) return std::min(n, static_cast<size_t>(ratio_or_count_));
  return std::min(n, static_cast<size_t>(std::ceil(ratio_or_count_ * static_cast<double>(n))));
}

size_t TopkCodec::EncodedBytes(size_t n) const {
  const size_t k = SentCount(n);
  return k * sizeof(uint32_t) + values_->EncodedBytes(k);
}

// Reads everything first: the residual is written once all values are known to be finite.
absl::StatusOr<Codec::Norms> TopkCodec::Encode(absl::Span<const float> values, const DrawKey& key,
                                               absl::Span<float> residual,
                                               absl::Span<uint8_t> bytes) const {
  CheckEncodeSpans(*this, values, residual, bytes);
  Norms norms;
  if (values.empty()) return norms;
  const size_t k = SentCount(values.size());
  const TopkSelection selection = SelectTopk(values, residual, k);
  if (!selection.is_finite) return NotFiniteError(values, residual);
  std::memcpy(bytes.data(), selection.indices.get(), k * sizeof(uint32_t));
  const absl::Span<uint8_t> encoded = bytes.subspan(k * sizeof(uint32_t));
  RETURN_IF_ERROR(
      values_->Encode({selection.numbers.get(), k}, key, /*residual=*/{}, encoded).status());
  if (residual.empty()) return norms;
  const std::unique_ptr<float[]> sent(new float[k]);
  values_->Decode(encoded, k, /*begin=*/0, absl::MakeSpan(sent.get(), k));
  norms.gradient = selection.square_sum;
  norms.residual = UpdateResidual(values, selection, {sent.get(), k}, residual);
  return norms;
}

absl::Status TopkCodec::Check(Bytes bytes, size_t n) const {
  RETURN_IF_ERROR(CheckEncodedLength(*this, bytes, n));
  const size_t k = SentCount(n);
  if (k == 0) return absl::OkStatus();
  const Indices indices(bytes, k);
  bool is_ascending = true;
  for (size_t j = 1; j < k; ++j) is_ascending &= indices[j - 1] < indices[j];
  for (size_t j = 1; !is_ascending && j < k; ++j) {
    if (indices[j - 1] < indices[j]) continue;
    return absl::InvalidArgumentError(absl::StrCat("expected ascending indices, got ",
                                                   indices[j - 1], " and ", indices[j],
                                                   " as indices ", j - 1, " and ", j));
  }
  if (indices[k - 1] >= n) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected indices below ", n, ", got ", indices[k - 1], " as index ", k - 1));
  }
  return Annotate(CheckValues(bytes.subspan(k * sizeof(uint32_t)), k), "sent values");
}

absl::Status TopkCodec::CheckValues(Bytes bytes, size_t k) const {
  RETURN_IF_ERROR(values_->Check(bytes, k));
  if (values_->type() != CodecType::kFloat32) return absl::OkStatus();
  float values[kDecodeAlignment];
  for (size_t begin = 0; begin < k; begin += kDecodeAlignment) {
    const auto part = absl::MakeSpan(values, std::min(kDecodeAlignment, k - begin));
    values_->Decode(bytes, k, begin, part);
    const auto found = std::find_if_not(part.begin(), part.end(),
                                        [](float value) { return std::isfinite(value); });
    if (found == part.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat("expected finite values, got ", *found,
                                                   " as element ", begin + (found - part.begin())));
  }
  return absl::OkStatus();
}

template <typename Set>
void TopkCodec::ForEachSent(Bytes bytes, size_t n, size_t begin, absl::Span<float> part,
                            const Set& set) const {
  // Elements are far apart, so the CPU does not foresee them: each is fetched this early, into the
  // second-level cache, for which a CPU fetches more at a time than for the first.
  constexpr size_t kFetchedAhead = 256;
  const size_t k = SentCount(n);
  const Indices indices(bytes, k);
  const Bytes encoded = bytes.subspan(k * sizeof(uint32_t));
  const size_t first = indices.CountBelow(begin, 0, k);
  const size_t last = first + indices.CountBelow(begin + part.size(), first, k);
  float values[kDecodeAlignment];
  for (size_t j = first; j < last;) {
    const size_t piece = j - j % kDecodeAlignment;
    const size_t stop = std::min(piece + kDecodeAlignment, last);
    values_->Decode(encoded, k, piece, absl::MakeSpan(values, stop - piece));
    for (; j < stop; ++j) {
      __builtin_prefetch(&part[indices[std::min(j + kFetchedAhead, last - 1)] - begin], /*rw=*/0,
                         /*locality=*/2);
      set(part[indices[j] - begin], values[j - piece]);
    }
  }
}

void TopkCodec::Decode(Bytes bytes, size_t n, size_t begin, absl::Span<float> values) const {
  CheckDecodeSpans(*this, bytes, n, begin, values.size());
  std::fill(values.begin(), values.end(), 0.0f);
  ForEachSent(bytes, n, begin, values, [](float& element, float value) { element = value; });
}

void TopkCodec::DecodeAdd(Bytes bytes, size_t n, size_t begin, absl::Span<float> sum) const {
  CheckDecodeSpans(*this, bytes, n, begin, sum.size());
  ForEachSent(bytes, n, begin, sum, [](float& element, float value) { element += value; });
}

}  // namespace

std::shared_ptr<const Codec> MakeTopkCodec(double ratio_or_count,
                                           std::shared_ptr<const Codec> values) {
  return std::make_shared<TopkCodec>(ratio_or_count, std::move(values));
}

}  // namespace capstan
