#ifndef KERNELS_MOMENTUM_RULE_H_
#define KERNELS_MOMENTUM_RULE_H_

#include "common/tensor/host_device.h"
#include "kernels/momentum.h"

namespace capstan {

// What ApplyMomentum (momentum.h) does to one element; the same operations in the same order on
// every device.
CAPSTAN_HOST_DEVICE inline void MomentumRule(const MomentumCoefficients& coefficients,
                                             float gradient, float& value, float& velocity) {
  velocity = coefficients.momentum * velocity + (gradient + coefficients.weight_decay * value);
  value -= coefficients.learning_rate * velocity;
}

}  // namespace capstan

#endif  // KERNELS_MOMENTUM_RULE_H_
