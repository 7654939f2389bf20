#include "server/slice/encoded_gradient.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "kernels/cpu/gradients.h"

namespace capstan {

absl::StatusOr<EncodedGradient> EncodedGradient::Check(Gradient gradient, const Codec& codec,
                                                       size_t size) {
  if (gradient.codec != codec.type()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a gradient of codec ", static_cast<int>(codec.type()), " (",
                     codec.name(), "), got codec ", static_cast<int>(gradient.codec)));
  }
  if (const size_t bytes = codec.EncodedBytes(size); gradient.bytes.size_bytes() != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a gradient of ", bytes, " bytes (", size, " ", codec.name(), "), got ",
        gradient.bytes.size_bytes(), "; worker and server disagree on the job"));
  }
  Payload bytes = std::move(gradient.bytes);
  if (codec.is_lossy()) {
    bytes = bytes.InOnePiece();
    RETURN_IF_ERROR(codec.Check(bytes.piece(), size));
  }
  return EncodedGradient(codec.is_lossy() ? &codec : nullptr, size, std::move(bytes));
}

bool EncodedGradient::IsFinite() const {
  if (lossy_ != nullptr) return true;
  return bytes_.ForEachBlock(
      [](size_t /*offset*/, absl::Span<const float> block) { return capstan::IsFinite(block); });
}

std::optional<absl::Span<const float>> EncodedGradient::InPlace() const {
  if (lossy_ != nullptr || bytes_.fragments().size() != 1) return std::nullopt;
  const uint8_t* const first = bytes_.piece().data();
  if (reinterpret_cast<uintptr_t>(first) % alignof(float) != 0) return std::nullopt;
  return absl::MakeConstSpan(reinterpret_cast<const float*>(first), size_);
}

void EncodedGradient::ForEachBlock(UseBlock use) const {
  if (lossy_ == nullptr) {
    bytes_.ForEachBlock([use](size_t offset, absl::Span<const float> block) {
      use(offset, block);
      return true;
    });
    return;
  }
  alignas(kCacheLineBytes) float block[kDecodedBlock];
  for (size_t offset = 0; offset < size_; offset += kDecodedBlock) {
    const absl::Span<float> values(block, std::min(kDecodedBlock, size_ - offset));
    lossy_->Decode(bytes_.piece(), size_, offset, values);
    use(offset, values);
  }
}

std::vector<float> EncodedGradient::Decoded() const {
  std::vector<float> values(size_);
  ForEachBlock([&values](size_t offset, absl::Span<const float> block) {
    std::copy(block.begin(), block.end(), values.begin() + static_cast<ptrdiff_t>(offset));
  });
  return values;
}

void EncodedGradient::AddTo(size_t offset, absl::Span<float> sum) const {
  if (lossy_ != nullptr) return lossy_->DecodeAdd(bytes_.piece(), size_, offset, sum);
  const float* const values = InPlace()->data() + offset;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
}

HostBuffer EncodedGradient::Keep(absl::FunctionRef<HostBuffer(size_t bytes)> take_buffer) {
  const size_t bytes = bytes_.size_bytes();
  HostBuffer memory;
  std::optional<HostBuffer> received;
  if (lossy_ == nullptr) received = bytes_.TakeFloats();
  if (received.has_value()) {
    memory = *std::move(received);
  } else {
    memory = take_buffer(bytes);
    bytes_.CopyTo(memory.bytes().first(bytes));
  }
  bytes_ = Payload();
  bytes_.Append(memory.bytes().first(bytes));
  return memory;
}

}  // namespace capstan
