#ifndef KERNELS_ADAMW_H_
#define KERNELS_ADAMW_H_

#include <cstdint>

#include "absl/status/status.h"

namespace capstan {

class CpuStream;
class CudaStream;

// What one application needs to know, the same for all elements.
struct AdamWCoefficients {
  float step = 0;         // learning_rate / (1 - beta1^t), at application t
  float root_scale = 0;   // 1 / sqrt(1 - beta2^t)
  float keep_first = 0;   // beta1
  float add_first = 0;    // 1 - beta1
  float keep_second = 0;  // beta2
  float add_second = 0;   // 1 - beta2
  float epsilon = 0;
  float decay = 0;  // the part of w that is taken away: learning_rate * weight_decay
};

// m = keep_first * m + add_first * g; v = keep_second * v + add_second * g^2;
// w -= step * m / (sqrt(v) * root_scale + epsilon) + decay * w, for each of the `n` elements g of
// `gradient`, w of `values`, m of `first_moment` and v of `second_moment`; the last three are
// changed in place.
absl::Status ApplyAdamW(const AdamWCoefficients& coefficients, int64_t n, const float* gradient,
                        float* values, float* first_moment, float* second_moment,
                        CpuStream& stream);
absl::Status ApplyAdamW(const AdamWCoefficients& coefficients, int64_t n, const float* gradient,
                        float* values, float* first_moment, float* second_moment,
                        CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_ADAMW_H_
