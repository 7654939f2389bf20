#ifndef COMMON_CODEC_CODEC_ERRORS_H_
#define COMMON_CODEC_CODEC_ERRORS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"

namespace capstan {

// INVALID_ARGUMENT unless `bytes` are as long as `n` values of the codec.
absl::Status CheckEncodedLength(const Codec& codec, absl::Span<const uint8_t> bytes, size_t n);

// INVALID_ARGUMENT: names the first value which is a NaN or an infinity, alone or with its residual
// (empty for none).
absl::Status NotFiniteError(absl::Span<const float> values, absl::Span<const float> residual);

// CHECKs that the spans of an Encode fit together.
void CheckEncodeSpans(const Codec& codec, absl::Span<const float> values,
                      absl::Span<const float> residual, absl::Span<const uint8_t> bytes);

// CHECKs that a part of `size` elements from `begin` on can be decoded.
void CheckDecodeSpans(const Codec& codec, absl::Span<const uint8_t> bytes, size_t n, size_t begin,
                      size_t size);

}  // namespace capstan

#endif  // COMMON_CODEC_CODEC_ERRORS_H_
