#ifndef KERNELS_CPU_MEAN_H_
#define KERNELS_CPU_MEAN_H_

#include "absl/types/span.h"

namespace capstan {

// mean[i] = (((t0[i] + t1[i]) + t2[i]) + ...) / count, of the `count` terms, in float32. There is
// one at least, all are as long as `mean`, and none overlaps it.
void Mean(absl::Span<const float* const> terms, absl::Span<float> mean);

}  // namespace capstan

#endif  // KERNELS_CPU_MEAN_H_
