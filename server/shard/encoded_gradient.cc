#include "server/shard/encoded_gradient.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "kernels/cpu/gradients.h"

namespace capstan {
void ForEachDecodedBlock(const Codec& codec, absl::Span<const uint8_t> bytes, size_t size,
                         UseBlock use) {
  alignas(kCacheLineBytes) float block[kDecodedBlock];
  for (size_t offset = 0; offset < size; offset += kDecodedBlock) {
    const absl::Span<float> values(block, std::min(kDecodedBlock, size - offset));
    codec.Decode(bytes, size, offset, values);
    use(offset, values);
  }
}

absl::StatusOr<EncodedGradient> EncodedGradient::Take(ExchangeRequest& request, const Codec& codec,
                                                      size_t size) {
  if (request.codec != codec.type()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a gradient of codec ", static_cast<int>(codec.type()), " (",
                     codec.name(), "), got codec ", static_cast<int>(request.codec)));
  }
  if (const size_t bytes = codec.EncodedBytes(size); request.gradient.size_bytes() != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a gradient of ", bytes, " bytes (", size, " ", codec.name(), "), got ",
        request.gradient.size_bytes(), "; worker and server disagree on the job"));
  }
  Payload bytes = std::exchange(request.gradient, Payload());
  if (codec.is_lossy()) {
    bytes = bytes.InOnePiece();
    RETURN_IF_ERROR(codec.Check(bytes.piece(), size));
  }
  return EncodedGradient(codec, size, std::move(bytes));
}

bool EncodedGradient::IsFinite() const {
  if (codec_->is_lossy()) return true;
  return bytes_.ForEachBlock(
      [](size_t /*offset*/, absl::Span<const float> block) { return capstan::IsFinite(block); });
}

std::optional<absl::Span<const float>> EncodedGradient::InPlace() const {
  if (codec_->is_lossy() || bytes_.fragments().size() != 1) return std::nullopt;
  const uint8_t* const first = bytes_.piece().data();
  if (reinterpret_cast<uintptr_t>(first) % alignof(float) != 0) return std::nullopt;
  return absl::MakeConstSpan(reinterpret_cast<const float*>(first), size_);
}

void EncodedGradient::ForEachBlock(UseBlock use) const {
  if (codec_->is_lossy()) return ForEachDecodedBlock(*codec_, bytes_.piece(), size_, use);
  bytes_.ForEachBlock([use](size_t offset, absl::Span<const float> block) {
    use(offset, block);
    return true;
  });
}

HostBuffer EncodedGradient::Keep(absl::FunctionRef<HostBuffer()> take_buffer) && {
  if (!codec_->is_lossy()) {
    if (std::optional<HostBuffer> received = bytes_.TakeFloats()) return *std::move(received);
  }
  HostBuffer copy = take_buffer();
  bytes_.CopyTo(copy.bytes().first(bytes_.size_bytes()));
  return copy;
}

}  // namespace capstan
