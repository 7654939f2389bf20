#include "kernels/adam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

void ExpectFormula(const AdamCoefficients& coefficients, int64_t size) {
  SCOPED_TRACE(testing::Message() << "size = " << size);
  Random random(/*seed=*/51);
  const std::vector<float> gradient = NormalVector(size, random);
  std::vector<float> values = NormalVector(size, random);
  std::vector<float> first_moment = NormalVector(size, random);
  std::vector<float> second_moment = NormalVector(size, random);
  for (float& number : second_moment) number = std::abs(number);
  const std::vector<float> values_before = values;
  const std::vector<float> first_moment_before = first_moment;
  const std::vector<float> second_moment_before = second_moment;

  CpuStream stream;
  ASSERT_TRUE(ApplyAdam(coefficients, size, gradient.data(), values.data(), first_moment.data(),
                        second_moment.data(), stream)
                  .ok());

  for (int64_t i = 0; i < size; ++i) {
    const double g = gradient[i];
    double w = values_before[i];
    double m = first_moment_before[i];
    double v = second_moment_before[i];
    const double h = g + double{coefficients.weight_decay} * w;
    m = coefficients.keep_first * m + coefficients.add_first * h;
    v = coefficients.keep_second * v + coefficients.add_second * h * h;
    w -= coefficients.step * m / (std::sqrt(v) * coefficients.root_scale + coefficients.epsilon);
    ASSERT_NEAR(values[i], w, 3e-6 * (1 + std::abs(w))) << "element " << i;
    ASSERT_NEAR(first_moment[i], m, 3e-6 * (1 + std::abs(m))) << "element " << i;
    ASSERT_NEAR(second_moment[i], v, 3e-6 * (1 + std::abs(v))) << "element " << i;
  }
}

TEST(ApplyAdamTest, FollowsTheFormulaInFloat64) {
  AdamCoefficients coefficients;
  coefficients.step = 0.5f;
  coefficients.root_scale = 1.6f;
  coefficients.keep_first = 0.8f;
  coefficients.add_first = 0.2f;
  coefficients.keep_second = 0.95f;
  coefficients.add_second = 0.05f;
  coefficients.epsilon = 0.2f;
  coefficients.weight_decay = 0.3f;
  for (const int64_t size : {0, 1, 7, 64, 1001}) ExpectFormula(coefficients, size);
}

}  // namespace
}  // namespace capstan
