#ifndef SERVER_SHARD_ENCODED_GRADIENT_H_
#define SERVER_SHARD_ENCODED_GRADIENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/tensor/host_buffer.h"

namespace capstan {

// Decoded elements that stay in the core's own cache together with their part of the values.
inline constexpr size_t kDecodedBlock = 4096;
static_assert(kDecodedBlock % Codec::kDecodeAlignment == 0);

using UseBlock = absl::FunctionRef<void(size_t offset, absl::Span<const float> block)>;

// Calls `use` with the `size` elements of checked bytes, in order. A block stays in the core's own
// cache.
void ForEachDecodedBlock(const Codec& codec, absl::Span<const uint8_t> bytes, size_t size,
                         UseBlock use);

// The gradient of one push: bytes that are known to decode to the slice's elements. A server looks
// at the bytes of a request nowhere else.
class EncodedGradient {
 public:
  // Takes the gradient out of `request`. INVALID_ARGUMENT if it does not have the slice's codec, or
  // if its bytes do not encode `size` elements; says what was expected and got. `codec` outlives
  // the gradient.
  static absl::StatusOr<EncodedGradient> Take(ExchangeRequest& request, const Codec& codec,
                                              size_t size);

  // Always true for lossy codecs: Take has looked.
  bool IsFinite() const;

  // The elements, if they are float32 in one piece that needs no copy.
  std::optional<absl::Span<const float>> InPlace() const;

  // Calls `use` with all elements, decoded, in order.
  void ForEachBlock(UseBlock use) const;

  // Returns the bytes in memory of their own. This is the receive buffer if the bytes are float32
  // and nobody else uses it. Otherwise it is a buffer from `take_buffer`, with a copy; the buffer
  // is as long as the bytes, rounded up to whole floats.
  HostBuffer Keep(absl::FunctionRef<HostBuffer()> take_buffer) &&;

 private:
  EncodedGradient(const Codec& codec, size_t size, Payload bytes)
      : codec_(&codec), size_(size), bytes_(std::move(bytes)) {}

  const Codec* codec_;
  size_t size_;
  Payload bytes_;  // in one piece, if the codec is lossy
};

}  // namespace capstan

#endif  // SERVER_SHARD_ENCODED_GRADIENT_H_
