#ifndef WORKER_CLIENT_API_CONVERT_FLOATS_H_
#define WORKER_CLIENT_API_CONVERT_FLOATS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace capstan {

// Copies as many numbers as `to` has, from the memory `from` of type `dtype` (a capstan_dtype).
// Exact. INVALID_ARGUMENT: `from` is null, or there is no such type.
absl::Status ToFloats(const void* from, int32_t dtype, absl::Span<float> to);

// The same in the other direction. Each number is rounded to the nearest, ties to even; what is too
// large becomes infinity, and a NaN stays one.
absl::Status FromFloats(absl::Span<const float> from, int32_t dtype, void* to);

}  // namespace capstan

#endif  // WORKER_CLIENT_API_CONVERT_FLOATS_H_
