#ifndef KERNELS_SGD_RULE_H_
#define KERNELS_SGD_RULE_H_

#include "common/tensor/host_device.h"
#include "kernels/sgd.h"

namespace capstan {

// What ApplySgd (sgd.h) does to one element; the same operations in the same order on every device.
CAPSTAN_HOST_DEVICE inline void SgdRule(const SgdCoefficients& coefficients, float gradient,
                                        float& value) {
  value -= coefficients.learning_rate * (gradient + coefficients.weight_decay * value);
}

}  // namespace capstan

#endif  // KERNELS_SGD_RULE_H_
