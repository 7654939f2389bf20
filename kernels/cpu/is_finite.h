#ifndef KERNELS_CPU_IS_FINITE_H_
#define KERNELS_CPU_IS_FINITE_H_

#include "absl/types/span.h"

namespace capstan {

// Whether no value is a NaN or an infinity.
bool IsFinite(absl::Span<const float> values);

}  // namespace capstan

#endif  // KERNELS_CPU_IS_FINITE_H_
