#ifndef KERNELS_ADAM_RULE_H_
#define KERNELS_ADAM_RULE_H_

#include <cmath>

#include "common/tensor/host_device.h"
#include "kernels/adam.h"

namespace capstan {

// What ApplyAdam (adam.h) does to one element; the same operations in the same order on every
// device.
CAPSTAN_HOST_DEVICE inline void AdamRule(const AdamCoefficients& coefficients, float gradient,
                                         float& value, float& first, float& second) {
  const float decayed = gradient + coefficients.weight_decay * value;
  first = coefficients.keep_first * first + coefficients.add_first * decayed;
  second = coefficients.keep_second * second + coefficients.add_second * (decayed * decayed);
  value -= coefficients.step * first /
           (std::sqrt(second) * coefficients.root_scale + coefficients.epsilon);
}

}  // namespace capstan

#endif  // KERNELS_ADAM_RULE_H_
