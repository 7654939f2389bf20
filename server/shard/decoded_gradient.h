#ifndef SERVER_SHARD_DECODED_GRADIENT_H_
#define SERVER_SHARD_DECODED_GRADIENT_H_

#include <cstddef>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/tensor/host_buffer.h"

namespace capstan {

// The gradient of one push, as floats: the only place where a server decodes the bytes of a
// request.
class DecodedGradient {
 public:
  // Takes the gradient out of `request`. INVALID_ARGUMENT, naming expected and got, when its codec
  // is unknown or its bytes do not encode `size` elements.
  static absl::StatusOr<DecodedGradient> Take(ExchangeRequest& request, size_t size);

  bool IsFinite() const;

  // Calls `use` with all elements in order, in blocks that fit into the cache.
  void ForEachBlock(
      absl::FunctionRef<void(size_t offset, absl::Span<const float> block)> use) const;

  // The elements in memory that may be kept: the memory that they were received in if nobody else
  // uses it, else a copy in what `take_buffer` returns, which is as long.
  HostBuffer Keep(absl::FunctionRef<HostBuffer()> take_buffer) &&;

 private:
  explicit DecodedGradient(Payload floats) : floats_(std::move(floats)) {}

  Payload floats_;
};

}  // namespace capstan

#endif  // SERVER_SHARD_DECODED_GRADIENT_H_
