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

// The gradient of one push, as floats. A server decodes the bytes of a request nowhere else.
class DecodedGradient {
 public:
  // Takes the gradient out of `request`. INVALID_ARGUMENT if its codec is unknown, or if its bytes
  // do not encode `size` elements. The error names the expected and the received codec or length.
  static absl::StatusOr<DecodedGradient> Take(ExchangeRequest& request, size_t size);

  bool IsFinite() const;

  // Calls `use` with all elements in order. A block fits into the cache.
  void ForEachBlock(
      absl::FunctionRef<void(size_t offset, absl::Span<const float> block)> use) const;

  // Returns the elements in memory of their own. This is the receive buffer if nobody else uses it.
  // Otherwise it is a buffer of the same length from `take_buffer`, with a copy.
  HostBuffer Keep(absl::FunctionRef<HostBuffer()> take_buffer) &&;

 private:
  explicit DecodedGradient(Payload floats) : floats_(std::move(floats)) {}

  Payload floats_;
};

}  // namespace capstan

#endif  // SERVER_SHARD_DECODED_GRADIENT_H_
