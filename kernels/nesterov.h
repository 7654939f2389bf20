#ifndef KERNELS_NESTEROV_H_
#define KERNELS_NESTEROV_H_

#include <cstdint>

#include "absl/status/status.h"

namespace capstan {

class CpuStream;
class CudaStream;

// What one application needs to know, the same for all elements.
struct NesterovCoefficients {
  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;  // L2, added to the gradient as weight_decay * w
};

// h = g + weight_decay * w; v = momentum * v + h; w -= learning_rate * (h + momentum * v), for each
// of the `n` elements g of `gradient`, w of `values` and v of `velocity`; the last two are changed
// in place.
absl::Status ApplyNesterov(const NesterovCoefficients& coefficients, int64_t n,
                           const float* gradient, float* values, float* velocity,
                           CpuStream& stream);
absl::Status ApplyNesterov(const NesterovCoefficients& coefficients, int64_t n,
                           const float* gradient, float* values, float* velocity,
                           CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_NESTEROV_H_
