#include "kernels/momentum.h"

#include "kernels/cuda/update_elements.h"
#include "kernels/momentum_rule.h"

namespace capstan {
namespace {

struct MomentumUpdate {
  MomentumCoefficients coefficients;
  __device__ void operator()(float gradient, float (&element)[2]) const {
    MomentumRule(coefficients, gradient, element[0], element[1]);
  }
};

}  // namespace

absl::Status ApplyMomentum(const MomentumCoefficients& coefficients, int64_t n,
                           const float* gradient, float* values, float* velocity,
                           CudaStream& stream) {
  return UpdateElements<2>("momentum", n, gradient, {{values, velocity}},
                           MomentumUpdate{coefficients}, stream);
}

}  // namespace capstan
