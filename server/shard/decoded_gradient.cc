#include "server/shard/decoded_gradient.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/gradients.h"

namespace capstan {

absl::StatusOr<DecodedGradient> DecodedGradient::Take(ExchangeRequest& request, size_t size) {
  if (request.codec != Codec::kFloat32) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a gradient of codec ", static_cast<int>(Codec::kFloat32),
                     " (float32), got codec ", static_cast<int>(request.codec)));
  }
  if (request.gradient.size_bytes() != size * sizeof(float)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a gradient of ", size * sizeof(float), " bytes (", size, " float32), got ",
        request.gradient.size_bytes(), "; worker and server disagree on the job"));
  }
  return DecodedGradient(std::exchange(request.gradient, Payload()));
}

bool DecodedGradient::IsFinite() const {
  return floats_.ForEachBlock(
      [](size_t /*offset*/, absl::Span<const float> block) { return capstan::IsFinite(block); });
}

void DecodedGradient::ForEachBlock(
    absl::FunctionRef<void(size_t offset, absl::Span<const float> block)> use) const {
  floats_.ForEachBlock([use](size_t offset, absl::Span<const float> block) {
    use(offset, block);
    return true;
  });
}

HostBuffer DecodedGradient::Keep(absl::FunctionRef<HostBuffer()> take_buffer) && {
  if (std::optional<HostBuffer> received = floats_.TakeFloats()) return *std::move(received);
  HostBuffer copy = take_buffer();
  floats_.CopyTo(copy.span());
  return copy;
}

}  // namespace capstan
