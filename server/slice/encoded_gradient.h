#ifndef SERVER_SLICE_ENCODED_GRADIENT_H_
#define SERVER_SLICE_ENCODED_GRADIENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/exchange/exchange_request.h"
#include "common/exchange/payload.h"
#include "common/tensor/host_buffer.h"

namespace capstan {

// Decoded elements that stay in the core's own cache together with their part of the values.
inline constexpr size_t kDecodedBlock = 4096;
static_assert(kDecodedBlock % Codec::kDecodeAlignment == 0);

using UseBlock = absl::FunctionRef<void(size_t offset, absl::Span<const float> block)>;

// The gradient of one push: bytes that are known to decode to the slice's elements. A server looks
// at the bytes of a request nowhere else.
class EncodedGradient {
 public:
  // INVALID_ARGUMENT if the gradient does not have the slice's codec, or if its bytes do not encode
  // `size` elements; says what was expected and got. `codec` outlives the result.
  static absl::StatusOr<EncodedGradient> Check(Gradient gradient, const Codec& codec, size_t size);
  // The bytes of whole floats.
  explicit EncodedGradient(Payload floats)
      : lossy_(nullptr), size_(floats.size_bytes() / sizeof(float)), bytes_(std::move(floats)) {}

  size_t size_bytes() const { return bytes_.size_bytes(); }
  CodecType codec() const { return lossy_ == nullptr ? CodecType::kFloat32 : lossy_->type(); }
  // Its bytes. After Keep, they live as long as the memory that it has returned.
  const Payload& bytes() const { return bytes_; }

  // Always true for lossy codecs: Check has looked.
  bool IsFinite() const;

  // The elements, if they are float32 in one piece that needs no copy.
  std::optional<absl::Span<const float>> InPlace() const;

  // Calls `use` with all elements, decoded, in order. A block stays in the core's own cache.
  void ForEachBlock(UseBlock use) const;
  std::vector<float> Decoded() const;
  // Adds the elements from `offset` on to `sum`. Only after Keep, which puts them into one piece.
  void AddTo(size_t offset, absl::Span<float> sum) const;

  // Puts the bytes into memory of their own, and returns it; it must outlive this object. This is
  // the receive buffer if the bytes are float32 and nobody else uses it. Otherwise it is a buffer
  // from `take_buffer`, with a copy.
  HostBuffer Keep(absl::FunctionRef<HostBuffer(size_t bytes)> take_buffer);

 private:
  EncodedGradient(const Codec* lossy, size_t size, Payload bytes)
      : lossy_(lossy), size_(size), bytes_(std::move(bytes)) {}

  const Codec* lossy_;  // null: float32
  size_t size_;
  Payload bytes_;  // in one piece, if the codec is lossy
};

}  // namespace capstan

#endif  // SERVER_SLICE_ENCODED_GRADIENT_H_
