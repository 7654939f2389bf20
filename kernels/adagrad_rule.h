#ifndef KERNELS_ADAGRAD_RULE_H_
#define KERNELS_ADAGRAD_RULE_H_

#include <cmath>

#include "common/tensor/host_device.h"
#include "kernels/adagrad.h"

namespace capstan {

// What ApplyAdagrad (adagrad.h) does to one element; the same operations in the same order on every
// device.
CAPSTAN_HOST_DEVICE inline void AdagradRule(const AdagradCoefficients& coefficients, float gradient,
                                            float& value, float& square_sum) {
  const float decayed = gradient + coefficients.weight_decay * value;
  square_sum += decayed * decayed;
  value -= coefficients.learning_rate * decayed / (std::sqrt(square_sum) + coefficients.epsilon);
}

}  // namespace capstan

#endif  // KERNELS_ADAGRAD_RULE_H_
