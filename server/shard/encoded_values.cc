#include "server/shard/encoded_values.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/tensor/host_buffer.h"

namespace capstan {

absl::StatusOr<Payload> EncodedValues::Encode(absl::Span<const float> values, uint64_t version) {
  if (!current_.empty() && version_ == version) return current_;
  DrawKey draws = draws_;
  draws.step = Step(static_cast<int64_t>(version));
  const size_t size = codec_.EncodedBytes(values.size());
  const std::shared_ptr<void> memory(AllocateHostMemory(size), FreeHostMemory);
  const absl::Span<uint8_t> bytes(static_cast<uint8_t*>(memory.get()), size);
  const auto encoded = codec_.Encode(values, draws, /*residual=*/{}, bytes);
  if (!encoded.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the values of version ", version, " cannot be sent as ", codec_.name(), ": ",
                     encoded.status().message(), "; try a smaller --learning_rate"));
  }
  current_ = Payload(memory);
  current_.Append(bytes);
  version_ = version;
  return current_;
}

}  // namespace capstan
