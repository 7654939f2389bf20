#include "common/codec/codec_errors.h"

#include <glog/logging.h>

#include <cmath>

#include "absl/strings/str_cat.h"

namespace capstan {

absl::Status CheckEncodedLength(const Codec& codec, absl::Span<const uint8_t> bytes, size_t n) {
  const size_t expected = codec.EncodedBytes(n);
  if (bytes.size() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("expected ", expected, " bytes for ", n,
                                                 " values as ", codec.name(), ", got ",
                                                 bytes.size()));
}

absl::Status NotFiniteError(absl::Span<const float> values, absl::Span<const float> residual) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected finite values, got ", values[i], " as element ", i));
    }
    if (!residual.empty() && !std::isfinite(values[i] + residual[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected finite sums of values and residual, got ", values[i], " + ",
                       residual[i], " as element ", i));
    }
  }
  return absl::InvalidArgumentError("expected finite values");
}

void CheckEncodeSpans(const Codec& codec, absl::Span<const float> values,
                      absl::Span<const float> residual, absl::Span<const uint8_t> bytes) {
  CHECK(residual.empty() || residual.size() == values.size()) << codec.name();
  CHECK_EQ(bytes.size(), codec.EncodedBytes(values.size())) << codec.name();
}

void CheckDecodeSpans(const Codec& codec, absl::Span<const uint8_t> bytes, size_t n, size_t begin,
                      size_t size) {
  CHECK_EQ(bytes.size(), codec.EncodedBytes(n)) << codec.name();
  CHECK_EQ(begin % Codec::kDecodeAlignment, 0) << codec.name();
  CHECK(begin <= n && size <= n - begin) << codec.name();
}

}  // namespace capstan
