#include "server/slice/encoded_values.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/host_buffer.h"

namespace capstan {

EncodedMemory::EncodedMemory(size_t size)
    : memory_(AllocateHostMemory(size), FreeHostMemory), size_(size) {}

Payload EncodedMemory::payload() const {
  Payload payload(memory_);
  payload.Append(bytes());
  return payload;
}

absl::StatusOr<Payload> EncodeValues(const Codec& codec, DrawKey draws,
                                     absl::Span<const float> values, uint64_t version) {
  draws.step = Step(static_cast<int64_t>(version));
  const EncodedMemory memory(codec.EncodedBytes(values.size()));
  const auto encoded = codec.Encode(values, draws, /*residual=*/{}, memory.bytes());
  if (encoded.ok()) return memory.payload();
  return absl::InvalidArgumentError(
      absl::StrCat("the values of version ", version, " cannot be sent as ", codec.name(), ": ",
                   encoded.status().message(), "; try a smaller learning rate"));
}

absl::StatusOr<Payload> EncodedValues::Encode(absl::Span<const float> values, uint64_t version) {
  if (!current_.empty() && version_ == version) return current_;
  ASSIGN_OR_RETURN(current_, EncodeValues(codec_, draws_, values, version));
  version_ = version;
  return current_;
}

}  // namespace capstan
