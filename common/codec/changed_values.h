#ifndef COMMON_CODEC_CHANGED_VALUES_H_
#define COMMON_CODEC_CHANGED_VALUES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"

namespace capstan {

// The elements of a slice that have changed, with their new values (CodecType::kChanged): for
// receivers that have the old ones. README.md has the bytes. Nothing is lost.

// Number of bytes for this many elements.
inline constexpr size_t ChangedBytes(size_t count) {
  return count * (sizeof(uint32_t) + sizeof(float));
}

// Replies to pulls of a topk have the changed elements, and no difference, if these take at most
// this many bytes: four times those of a difference, and not more than `n` float32 values. Up to
// four workers that push the same topk can change as many.
size_t MostChangedBytes(const Codec& codec, size_t n);

// The number of elements whose bits differ. Both spans have the same size, below 2^32.
size_t CountChanged(absl::Span<const float> from, absl::Span<const float> to);
// Writes these elements to `bytes`, which are ChangedBytes(CountChanged(from, to)).
void EncodeChanged(absl::Span<const float> from, absl::Span<const float> to,
                   absl::Span<uint8_t> bytes);

// INVALID_ARGUMENT, with what was expected and got, unless the bytes are elements of `n` values.
// Only checked bytes may be applied.
absl::Status CheckChanged(absl::Span<const uint8_t> bytes, size_t n);
// Gives the changed elements of `values` their new values.
void ApplyChanged(absl::Span<const uint8_t> bytes, absl::Span<float> values);

}  // namespace capstan

#endif  // COMMON_CODEC_CHANGED_VALUES_H_
