#ifndef SERVER_SHARD_ENCODED_VALUES_H_
#define SERVER_SHARD_ENCODED_VALUES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/exchange/payload.h"

namespace capstan {

// The values of one slice as the codec of its pulls encodes them: each version once, whoever pulls
// it. Draws depend on the version, and on no worker. Not thread-safe, but any thread may read and
// release the payloads.
class EncodedValues {
 public:
  // `codec` outlives this.
  EncodedValues(const Codec* codec, DrawKey draws) : codec_(*codec), draws_(draws) {}

  // `values` are those of `version`. INVALID_ARGUMENT if one is a NaN or an infinity.
  absl::StatusOr<Payload> Encode(absl::Span<const float> values, uint64_t version);

 private:
  const Codec& codec_;
  const DrawKey draws_;
  Payload current_;       // empty: none
  uint64_t version_ = 0;  // of current_
};

}  // namespace capstan

#endif  // SERVER_SHARD_ENCODED_VALUES_H_
