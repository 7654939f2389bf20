#ifndef KERNELS_SGD_H_
#define KERNELS_SGD_H_

#include <cstdint>

#include "absl/status/status.h"

namespace capstan {

class CpuStream;
class CudaStream;

// What one application needs to know, the same for all elements.
struct SgdCoefficients {
  float learning_rate = 0;
  float weight_decay = 0;  // L2, added to the gradient as weight_decay * w
};

// w -= learning_rate * (g + weight_decay * w), for each of the `n` elements g of `gradient` and w
// of `values`, which is changed in place.
absl::Status ApplySgd(const SgdCoefficients& coefficients, int64_t n, const float* gradient,
                      float* values, CpuStream& stream);
absl::Status ApplySgd(const SgdCoefficients& coefficients, int64_t n, const float* gradient,
                      float* values, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_SGD_H_
