#include "kernels/bias_relu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kSizes[][2] = {{0, 0}, {0, 5}, {3, 0}, {1, 1}, {1, 9}, {7, 1}, {5, 13}, {33, 67}};
constexpr Activation kActivations[] = {Activation::kNone, Activation::kRelu};

void ExpectForward(int64_t rows, int64_t columns, Activation activation) {
  SCOPED_TRACE(testing::Message() << "rows, columns = " << rows << ", " << columns);
  Random random(/*seed=*/21);
  const std::vector<float> bias = NormalVector(columns, random);
  const std::vector<float> inputs = NormalVector(rows * columns, random);
  std::vector<float> values = inputs;

  CpuStream stream;
  ASSERT_TRUE(AddBias(rows, columns, activation, bias.data(), values.data(), stream).ok());

  for (int64_t i = 0; i < rows * columns; ++i) {
    const double sum = double{inputs[i]} + bias[i % columns];
    const double expected = activation == Activation::kRelu ? std::fmax(sum, 0.0) : sum;
    ASSERT_NEAR(values[i], expected, 1e-6) << "element " << i;
  }
}

void ExpectBackward(int64_t rows, int64_t columns, Activation activation) {
  SCOPED_TRACE(testing::Message() << "rows, columns = " << rows << ", " << columns);
  const bool is_relu = activation == Activation::kRelu;
  Random random(/*seed=*/22);
  const std::vector<float> inputs = NormalVector(rows * columns, random);
  std::vector<float> outputs(inputs.size(), kNan);
  for (size_t i = 0; is_relu && i < inputs.size(); ++i) outputs[i] = std::fmax(inputs[i], 0.0f);
  const std::vector<float> before = NormalVector(rows * columns, random);
  std::vector<float> gradient = before;
  std::vector<float> bias_gradient(columns, kNan);

  CpuStream stream;
  ASSERT_EQ(AddBiasBackwardScratchBytes(rows, columns, stream), 0u);
  ASSERT_TRUE(AddBiasBackward(rows, columns, activation, outputs.data(), gradient.data(),
                              bias_gradient.data(), /*scratch=*/nullptr, stream)
                  .ok());

  std::vector<double> sums(columns);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const float expected = is_relu && inputs[i] <= 0 ? 0.0f : before[i];
    ASSERT_EQ(gradient[i], expected) << "element " << i;
    sums[i % columns] += expected;
  }
  for (int64_t i = 0; i < columns; ++i) ASSERT_NEAR(bias_gradient[i], sums[i], 1e-5) << i;
}

TEST(AddBiasTest, MatchesTheDefinitionAtOddSizes) {
  for (const auto& size : kSizes) {
    for (const Activation activation : kActivations) ExpectForward(size[0], size[1], activation);
  }
}

TEST(AddBiasTest, NanIsNotHiddenByRelu) {
  std::vector<float> values(9, kNan);
  const std::vector<float> bias(9, 1.0f);
  CpuStream stream;
  ASSERT_TRUE(
      AddBias(/*rows=*/1, /*columns=*/9, Activation::kRelu, bias.data(), values.data(), stream)
          .ok());
  for (const float value : values) EXPECT_TRUE(std::isnan(value));
}

TEST(AddBiasBackwardTest, MatchesTheDefinitionAtOddSizes) {
  for (const auto& size : kSizes) {
    for (const Activation activation : kActivations) ExpectBackward(size[0], size[1], activation);
  }
}

TEST(AddBiasBackwardTest, ReluPassesNothingWhereItsOutputIsZero) {
  const std::vector<float> outputs = {0.0f, -0.0f, 1e-30f};
  std::vector<float> gradient = {1.0f, 1.0f, 1.0f};
  std::vector<float> bias_gradient(3, kNan);
  CpuStream stream;
  ASSERT_TRUE(AddBiasBackward(/*rows=*/1, /*columns=*/3, Activation::kRelu, outputs.data(),
                              gradient.data(), bias_gradient.data(), /*scratch=*/nullptr, stream)
                  .ok());
  EXPECT_EQ(gradient, (std::vector<float>{0.0f, 0.0f, 1.0f}));
  EXPECT_EQ(bias_gradient, gradient);
}

TEST(AddBiasBackwardTest, BiasGradientIsAddedFromTheFirstRowOn) {
  const float big = 1 << 24;  // big + 1 rounds to big
  std::vector<float> gradient = {big, 1.0f, 1.0f, -big};
  float bias_gradient = kNan;
  CpuStream stream;
  ASSERT_TRUE(AddBiasBackward(/*rows=*/4, /*columns=*/1, Activation::kNone, /*outputs=*/nullptr,
                              gradient.data(), &bias_gradient, /*scratch=*/nullptr, stream)
                  .ok());
  EXPECT_EQ(bias_gradient, 0.0f);
}

}  // namespace
}  // namespace capstan
