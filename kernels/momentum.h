#ifndef KERNELS_MOMENTUM_H_
#define KERNELS_MOMENTUM_H_

#include <cstdint>

#include "absl/status/status.h"

namespace capstan {

class CpuStream;
class CudaStream;

// What one application needs to know, the same for all elements.
struct MomentumCoefficients {
  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;  // L2, added to the gradient as weight_decay * w
};

// v = momentum * v + (g + weight_decay * w); w -= learning_rate * v, for each of the `n` elements g
// of `gradient`, w of `values` and v of `velocity`; the last two are changed in place.
absl::Status ApplyMomentum(const MomentumCoefficients& coefficients, int64_t n,
                           const float* gradient, float* values, float* velocity,
                           CpuStream& stream);
absl::Status ApplyMomentum(const MomentumCoefficients& coefficients, int64_t n,
                           const float* gradient, float* values, float* velocity,
                           CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_MOMENTUM_H_
