#include "kernels/adagrad.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

void ExpectFormula(const AdagradCoefficients& coefficients, int64_t size) {
  SCOPED_TRACE(testing::Message() << "size = " << size);
  Random random(/*seed=*/51);
  const std::vector<float> gradient = NormalVector(size, random);
  std::vector<float> values = NormalVector(size, random);
  std::vector<float> squares = NormalVector(size, random);
  for (float& number : squares) number = std::abs(number);
  const std::vector<float> values_before = values;
  const std::vector<float> squares_before = squares;

  CpuStream stream;
  ASSERT_TRUE(
      ApplyAdagrad(coefficients, size, gradient.data(), values.data(), squares.data(), stream)
          .ok());

  for (int64_t i = 0; i < size; ++i) {
    const double g = gradient[i];
    double w = values_before[i];
    double a = squares_before[i];
    const double h = g + double{coefficients.weight_decay} * w;
    a += h * h;
    w -= coefficients.learning_rate * h / (std::sqrt(a) + coefficients.epsilon);
    ASSERT_NEAR(values[i], w, 3e-6 * (1 + std::abs(w))) << "element " << i;
    ASSERT_NEAR(squares[i], a, 3e-6 * (1 + std::abs(a))) << "element " << i;
  }
}

TEST(ApplyAdagradTest, FollowsTheFormulaInFloat64) {
  AdagradCoefficients coefficients;
  coefficients.learning_rate = 0.1f;
  coefficients.epsilon = 0.2f;
  coefficients.weight_decay = 0.3f;
  for (const int64_t size : {0, 1, 7, 64, 1001}) ExpectFormula(coefficients, size);
}

}  // namespace
}  // namespace capstan
