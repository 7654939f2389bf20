#ifndef KERNELS_CPU_GRADIENTS_H_
#define KERNELS_CPU_GRADIENTS_H_

#include "absl/types/span.h"

// A server's work on gradients before an optimizer applies them.
namespace capstan {

// False if a value is a NaN or an infinity.
bool IsFinite(absl::Span<const float> values);

// mean[i] = (((t0[i] + t1[i]) + t2[i]) + ...) / count, in float32, for the `count` terms t0, t1,
// ... There is at least one. All are as long as `mean`, and none overlaps it.
void Mean(absl::Span<const float* const> terms, absl::Span<float> mean);

}  // namespace capstan

#endif  // KERNELS_CPU_GRADIENTS_H_
