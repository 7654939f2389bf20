#include "kernels/adam.h"

#include "kernels/adam_rule.h"
#include "kernels/cuda/update_elements.h"

namespace capstan {
namespace {

struct AdamUpdate {
  AdamCoefficients coefficients;
  __device__ void operator()(float gradient, float (&element)[3]) const {
    AdamRule(coefficients, gradient, element[0], element[1], element[2]);
  }
};

}  // namespace

absl::Status ApplyAdam(const AdamCoefficients& coefficients, int64_t n, const float* gradient,
                       float* values, float* first_moment, float* second_moment,
                       CudaStream& stream) {
  return UpdateElements<3>("Adam", n, gradient, {{values, first_moment, second_moment}},
                           AdamUpdate{coefficients}, stream);
}

}  // namespace capstan
