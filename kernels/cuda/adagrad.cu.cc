#include "kernels/adagrad.h"

#include "kernels/adagrad_rule.h"
#include "kernels/cuda/update_elements.h"

namespace capstan {
namespace {

struct AdagradUpdate {
  AdagradCoefficients coefficients;
  __device__ void operator()(float gradient, float (&element)[2]) const {
    AdagradRule(coefficients, gradient, element[0], element[1]);
  }
};

}  // namespace

absl::Status ApplyAdagrad(const AdagradCoefficients& coefficients, int64_t n, const float* gradient,
                          float* values, float* squares, CudaStream& stream) {
  return UpdateElements<2>("Adagrad", n, gradient, {{values, squares}}, AdagradUpdate{coefficients},
                           stream);
}

}  // namespace capstan
