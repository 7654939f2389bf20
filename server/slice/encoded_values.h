#ifndef SERVER_SLICE_ENCODED_VALUES_H_
#define SERVER_SLICE_ENCODED_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/exchange/payload.h"

namespace capstan {

// Memory for the bytes of a reply.
class EncodedMemory {
 public:
  explicit EncodedMemory(size_t size);

  absl::Span<uint8_t> bytes() const { return {static_cast<uint8_t*>(memory_.get()), size_}; }
  // These bytes; it keeps them alive.
  Payload payload() const;

 private:
  std::shared_ptr<void> memory_;
  size_t size_;
};

// Encodes values, or a difference, of this version; it takes the place of the step in the draws.
// INVALID_ARGUMENT if one is a NaN or an infinity.
absl::StatusOr<Payload> EncodeValues(const Codec& codec, DrawKey draws,
                                     absl::Span<const float> values, uint64_t version);

// The values of one slice as the codec of its pulls encodes them: each version once, whoever pulls
// it. Draws depend on the version, and on no worker. Not thread-safe, but any thread may read and
// release the payloads.
class EncodedValues {
 public:
  // `codec` outlives this.
  EncodedValues(const Codec* codec, DrawKey draws) : codec_(*codec), draws_(draws) {}

  // `values` are those of `version`. INVALID_ARGUMENT if one is a NaN or an infinity.
  absl::StatusOr<Payload> Encode(absl::Span<const float> values, uint64_t version);

  // Memory of the encoded version that is kept.
  size_t size_bytes() const { return current_.size_bytes(); }

 private:
  const Codec& codec_;
  const DrawKey draws_;
  Payload current_;       // empty: none
  uint64_t version_ = 0;  // of current_
};

}  // namespace capstan

#endif  // SERVER_SLICE_ENCODED_VALUES_H_
