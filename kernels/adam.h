#ifndef KERNELS_ADAM_H_
#define KERNELS_ADAM_H_

#include <cstdint>

#include "absl/status/status.h"

namespace capstan {

class CpuStream;
class CudaStream;

// What one application needs to know, the same for all elements.
struct AdamCoefficients {
  float step = 0;         // learning_rate / (1 - beta1^t), at application t
  float root_scale = 0;   // 1 / sqrt(1 - beta2^t)
  float keep_first = 0;   // beta1
  float add_first = 0;    // 1 - beta1
  float keep_second = 0;  // beta2
  float add_second = 0;   // 1 - beta2
  float epsilon = 0;
  float weight_decay = 0;  // L2, added to the gradient as weight_decay * w
};

// h = g + weight_decay * w; m = keep_first * m + add_first * h; v = keep_second * v + add_second *
// h^2; w -= step * m / (sqrt(v) * root_scale + epsilon), for each of the `n` elements g of
// `gradient`, w of `values`, m of `first_moment` and v of `second_moment`; the last three are
// changed in place.
absl::Status ApplyAdam(const AdamCoefficients& coefficients, int64_t n, const float* gradient,
                       float* values, float* first_moment, float* second_moment, CpuStream& stream);
absl::Status ApplyAdam(const AdamCoefficients& coefficients, int64_t n, const float* gradient,
                       float* values, float* first_moment, float* second_moment,
                       CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_ADAM_H_
