#include "kernels/sgd.h"

#include "kernels/cuda/update_elements.h"
#include "kernels/sgd_rule.h"

namespace capstan {
namespace {

struct SgdUpdate {
  SgdCoefficients coefficients;
  __device__ void operator()(float gradient, float (&element)[1]) const {
    SgdRule(coefficients, gradient, element[0]);
  }
};

}  // namespace

absl::Status ApplySgd(const SgdCoefficients& coefficients, int64_t n, const float* gradient,
                      float* values, CudaStream& stream) {
  return UpdateElements<1>("SGD", n, gradient, {{values}}, SgdUpdate{coefficients}, stream);
}

}  // namespace capstan
