#ifndef KERNELS_ADAMW_RULE_H_
#define KERNELS_ADAMW_RULE_H_

#include <cmath>

#include "common/tensor/host_device.h"
#include "kernels/adamw.h"

namespace capstan {

// What ApplyAdamW (adamw.h) does to one element; the same operations in the same order on every
// device.
CAPSTAN_HOST_DEVICE inline void AdamWRule(const AdamWCoefficients& coefficients, float gradient,
                                          float& value, float& first, float& second) {
  first = coefficients.keep_first * first + coefficients.add_first * gradient;
  second = coefficients.keep_second * second + coefficients.add_second * (gradient * gradient);
  value -= coefficients.step * first /
               (std::sqrt(second) * coefficients.root_scale + coefficients.epsilon) +
           coefficients.decay * value;
}

}  // namespace capstan

#endif  // KERNELS_ADAMW_RULE_H_
