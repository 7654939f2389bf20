#include "kernels/nesterov.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

void ExpectFormula(const NesterovCoefficients& coefficients, int64_t size) {
  SCOPED_TRACE(testing::Message() << "size = " << size);
  Random random(/*seed=*/51);
  const std::vector<float> gradient = NormalVector(size, random);
  std::vector<float> values = NormalVector(size, random);
  std::vector<float> velocity = NormalVector(size, random);
  const std::vector<float> values_before = values;
  const std::vector<float> velocity_before = velocity;

  CpuStream stream;
  ASSERT_TRUE(
      ApplyNesterov(coefficients, size, gradient.data(), values.data(), velocity.data(), stream)
          .ok());

  for (int64_t i = 0; i < size; ++i) {
    const double g = gradient[i];
    double w = values_before[i];
    double v = velocity_before[i];
    const double h = g + double{coefficients.weight_decay} * w;
    v = coefficients.momentum * v + h;
    w -= coefficients.learning_rate * (h + coefficients.momentum * v);
    ASSERT_NEAR(values[i], w, 3e-6 * (1 + std::abs(w))) << "element " << i;
    ASSERT_NEAR(velocity[i], v, 3e-6 * (1 + std::abs(v))) << "element " << i;
  }
}

TEST(ApplyNesterovTest, FollowsTheFormulaInFloat64) {
  NesterovCoefficients coefficients;
  coefficients.learning_rate = 0.1f;
  coefficients.momentum = 0.8f;
  coefficients.weight_decay = 0.3f;
  for (const int64_t size : {0, 1, 7, 64, 1001}) ExpectFormula(coefficients, size);
}

}  // namespace
}  // namespace capstan
