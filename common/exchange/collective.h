#ifndef COMMON_EXCHANGE_COLLECTIVE_H_
#define COMMON_EXCHANGE_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/exchange/payload.h"
#include "common/tensor/slicing.h"

namespace capstan {

// What all workers do together, beside the parameters. Numbered as v1::Collective::Type. A peer may
// send any number.
enum class CollectiveType : int32_t {
  kSum = 1,
  kMean = 2,
  kMin = 3,
  kMax = 4,
  kBroadcast = 5,  // the values of one worker
  kBarrier = 6,    // nothing is combined
  // The worker has no more gradients, and takes no part in operations until all have joined. The
  // reply is one int64. -1: another worker does the step, so do it without a gradient and join
  // again. From 0 on: all have joined, and this is the number of the next operation.
  kJoin = 7,
  kEndOfStep = 8,  // the worker does no operation of this step any more
};
// Whether such an operation has values.
constexpr bool HasElements(CollectiveType type) {
  return CollectiveType::kSum <= type && type <= CollectiveType::kBroadcast;
}

// Numbered as v1::Collective::Dtype. A peer may send any number.
enum class CollectiveDtype : int32_t { kFloat32 = 1, kFloat64 = 2, kInt64 = 3 };
// Bytes of an element. 0: there is no such type.
constexpr size_t BytesOf(CollectiveDtype dtype) {
  if (dtype == CollectiveDtype::kFloat32) return 4;
  return dtype == CollectiveDtype::kFloat64 || dtype == CollectiveDtype::kInt64 ? 8 : 0;
}

inline constexpr size_t kMaxCollectiveBytes = size_t{1} << 20;
inline constexpr size_t kMaxCollectiveDimensions = 64;

// The worker's part in an operation of all workers. It is sent to the job's first slice. The
// reply's values are the result, once all live workers have sent theirs. All do the same
// operations, with values of the same shape, in the same order.
struct Collective {
  // Names the operation: the worker's next step, and which of its operations in this step it is,
  // from 0 on.
  Step step;
  uint64_t number = 0;
  CollectiveType type = CollectiveType::kBarrier;
  CollectiveDtype dtype = CollectiveDtype::kFloat32;
  // Of the values. Empty: they are a scalar, or the operation has none.
  std::vector<uint64_t> shape = {};
  WorkerId root;        // in a broadcast, the worker whose values count
  Payload values = {};  // little-endian; empty if no values of this worker count
};
// The first slice of the job.
inline constexpr SliceKey kCollectiveSlice = {TableId(0), SliceIndex(0)};

// INVALID_ARGUMENT: the shape has too many dimensions. A peer may send any.
absl::Status CheckDimensions(size_t num_dims);
// INVALID_ARGUMENT: as CheckDimensions; or there is no such type, or there are too many elements.
absl::Status CheckElements(absl::Span<const uint64_t> shape, CollectiveDtype dtype);
// Number of elements of any shape. 2^64 - 1: at least so many.
uint64_t NumElements(absl::Span<const uint64_t> shape);
// As "2x3 float32", "3 float32", or "a scalar of float32".
std::string ElementsText(absl::Span<const uint64_t> shape, CollectiveDtype dtype);

}  // namespace capstan

#endif  // COMMON_EXCHANGE_COLLECTIVE_H_
