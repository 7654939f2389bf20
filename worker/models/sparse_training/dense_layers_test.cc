#include "worker/models/sparse_training/dense_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::ElementsAre;

// Two samples, two inputs, two hidden outputs and one output, by hand.
TEST(DenseLayersTest, ForwardAndBackwardAreThoseOfAnExample) {
  DenseLayers layers({2, 2});
  ASSERT_EQ(layers.layer_count(), 2);
  const std::vector<float> weight = {1, -1, 2, 3}, bias = {0.5f, -1};
  const std::vector<float> last_weight = {2, -3}, last_bias = {10};
  const absl::Span<float> inputs = layers.PrepareInputs(2);
  const std::vector<float> samples = {1, 2, -1, 0};
  std::copy(samples.begin(), samples.end(), inputs.begin());
  ASSERT_TRUE(layers.Forward(0, weight, bias).ok());
  ASSERT_TRUE(layers.Forward(1, last_weight, last_bias).ok());
  // Hidden: (1 + 4 + 0.5, -1 + 6 - 1) = (5.5, 4) and (-0.5, 0), after ReLU (0, 0).
  EXPECT_THAT(layers.result(), ElementsAre(10 + 11 - 12, 10));

  layers.SetResultGradient({1, 5});
  std::vector<float> weight_gradient(4), bias_gradient(2), last_gradient(2), last_bias_gradient(1);
  ASSERT_TRUE(layers
                  .Backward(1, last_weight, absl::MakeSpan(last_gradient),
                            absl::MakeSpan(last_bias_gradient))
                  .ok());
  EXPECT_THAT(last_gradient, ElementsAre(5.5f, 4));
  EXPECT_THAT(last_bias_gradient, ElementsAre(6));
  ASSERT_TRUE(
      layers.Backward(0, weight, absl::MakeSpan(weight_gradient), absl::MakeSpan(bias_gradient))
          .ok());
  // ReLU stops the second sample.
  EXPECT_THAT(weight_gradient, ElementsAre(2, -3, 4, -6));
  EXPECT_THAT(bias_gradient, ElementsAre(2, -3));
  EXPECT_THAT(layers.input_gradient(), ElementsAre(2 + 3, 4 - 9, 0, 0));
}

TEST(DenseLayersTest, LaterBatchesHaveOtherSizes) {
  DenseLayers layers({1});
  for (const size_t samples : {3, 1, 5}) {
    const absl::Span<float> inputs = layers.PrepareInputs(static_cast<int64_t>(samples));
    ASSERT_EQ(inputs.size(), samples);
    std::fill(inputs.begin(), inputs.end(), 2.0f);
    ASSERT_TRUE(layers.Forward(0, {3}, {1}).ok());
    EXPECT_EQ(layers.result().size(), samples);
    EXPECT_THAT(layers.result(), testing::Each(7));
  }
}

}  // namespace
}  // namespace capstan
