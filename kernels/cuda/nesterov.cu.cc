#include "kernels/nesterov.h"

#include "kernels/cuda/update_elements.h"
#include "kernels/nesterov_rule.h"

namespace capstan {
namespace {

struct NesterovUpdate {
  NesterovCoefficients coefficients;
  __device__ void operator()(float gradient, float (&element)[2]) const {
    NesterovRule(coefficients, gradient, element[0], element[1]);
  }
};

}  // namespace

absl::Status ApplyNesterov(const NesterovCoefficients& coefficients, int64_t n,
                           const float* gradient, float* values, float* velocity,
                           CudaStream& stream) {
  return UpdateElements<2>("Nesterov", n, gradient, {{values, velocity}},
                           NesterovUpdate{coefficients}, stream);
}

}  // namespace capstan
