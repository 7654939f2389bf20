#include "kernels/adamw.h"

#include "kernels/adamw_rule.h"
#include "kernels/cuda/update_elements.h"

namespace capstan {
namespace {

struct AdamWUpdate {
  AdamWCoefficients coefficients;
  __device__ void operator()(float gradient, float (&element)[3]) const {
    AdamWRule(coefficients, gradient, element[0], element[1], element[2]);
  }
};

}  // namespace

absl::Status ApplyAdamW(const AdamWCoefficients& coefficients, int64_t n, const float* gradient,
                        float* values, float* first_moment, float* second_moment,
                        CudaStream& stream) {
  return UpdateElements<3>("AdamW", n, gradient, {{values, first_moment, second_moment}},
                           AdamWUpdate{coefficients}, stream);
}

}  // namespace capstan
