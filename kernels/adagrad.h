#ifndef KERNELS_ADAGRAD_H_
#define KERNELS_ADAGRAD_H_

#include <cstdint>

#include "absl/status/status.h"

namespace capstan {

class CpuStream;
class CudaStream;

// What one application needs to know, the same for all elements.
struct AdagradCoefficients {
  float learning_rate = 0;
  float epsilon = 0;
  float weight_decay = 0;  // L2, added to the gradient as weight_decay * w
};

// h = g + weight_decay * w; a += h^2; w -= learning_rate * h / (sqrt(a) + epsilon), for each of the
// `n` elements g of `gradient`, w of `values` and a of `squares`; the last two are changed in
// place.
absl::Status ApplyAdagrad(const AdagradCoefficients& coefficients, int64_t n, const float* gradient,
                          float* values, float* squares, CpuStream& stream);
absl::Status ApplyAdagrad(const AdagradCoefficients& coefficients, int64_t n, const float* gradient,
                          float* values, float* squares, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_ADAGRAD_H_
