#ifndef KERNELS_NESTEROV_RULE_H_
#define KERNELS_NESTEROV_RULE_H_

#include "common/tensor/host_device.h"
#include "kernels/nesterov.h"

namespace capstan {

// What ApplyNesterov (nesterov.h) does to one element; the same operations in the same order on
// every device.
CAPSTAN_HOST_DEVICE inline void NesterovRule(const NesterovCoefficients& coefficients,
                                             float gradient, float& value, float& velocity) {
  const float decayed = gradient + coefficients.weight_decay * value;
  velocity = coefficients.momentum * velocity + decayed;
  value -= coefficients.learning_rate * (decayed + coefficients.momentum * velocity);
}

}  // namespace capstan

#endif  // KERNELS_NESTEROV_RULE_H_
