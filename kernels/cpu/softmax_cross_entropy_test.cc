#include "kernels/softmax_cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/cpu_stream.h"

namespace capstan {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Output {
  SoftmaxCrossEntropyResult result;
  std::vector<float> gradient;
};

Output Evaluate(const std::vector<float>& scores, const std::vector<int32_t>& labels,
                int64_t classes) {
  Output output;
  output.result = {/*loss_sum=*/kNan, /*correct=*/-1};
  output.gradient.assign(scores.size(), kNan);
  CpuStream stream;
  const int64_t samples = static_cast<int64_t>(labels.size());
  EXPECT_EQ(SoftmaxCrossEntropyScratchBytes(samples, classes, stream), 0u);
  EXPECT_TRUE(SoftmaxCrossEntropy(samples, classes, scores.data(), labels.data(),
                                  output.gradient.data(), &output.result, /*scratch=*/nullptr,
                                  stream)
                  .ok());
  return output;
}

// Softmax of one row, by the definition, in float64; for scores of moderate size.
std::vector<double> Softmax(const float* scores, int64_t classes) {
  std::vector<double> probabilities(classes);
  double sum = 0;
  for (int64_t i = 0; i < classes; ++i) sum += std::exp(double{scores[i]});
  for (int64_t i = 0; i < classes; ++i) probabilities[i] = std::exp(double{scores[i]}) / sum;
  return probabilities;
}

void ExpectDefinition(int64_t samples, int64_t classes) {
  SCOPED_TRACE(testing::Message() << "samples, classes = " << samples << ", " << classes);
  Random random(/*seed=*/31);
  std::vector<float> scores(samples * classes);
  for (float& score : scores) score = 3 * random.Normal();
  std::vector<int32_t> labels(samples);
  for (int32_t& label : labels) label = static_cast<int32_t>(random.UniformInt(classes));

  const Output output = Evaluate(scores, labels, classes);

  double loss_sum = 0;
  int64_t correct = 0;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const std::vector<double> softmax = Softmax(&scores[sample * classes], classes);
    loss_sum -= std::log(softmax[labels[sample]]);
    int64_t best = 0;
    for (int64_t i = 0; i < classes; ++i) {
      if (softmax[i] > softmax[best]) best = i;
      const double expected = (softmax[i] - (i == labels[sample] ? 1 : 0)) / samples;
      ASSERT_NEAR(output.gradient[sample * classes + i], expected, 2e-7);
    }
    correct += best == labels[sample] ? 1 : 0;
  }
  EXPECT_NEAR(output.result.loss_sum, loss_sum, 1e-6 * (1 + loss_sum));
  EXPECT_EQ(output.result.correct, correct);
}

TEST(SoftmaxCrossEntropyTest, MatchesTheDefinitionAtOddSizes) {
  const int64_t sizes[][2] = {{0, 3}, {1, 1}, {1, 2}, {7, 3}, {33, 10}, {5, 1001}};
  for (const auto& size : sizes) ExpectDefinition(/*samples=*/size[0], /*classes=*/size[1]);
}

TEST(SoftmaxCrossEntropyTest, GradientMayOverwriteTheScores) {
  std::vector<float> scores = {0.5f, -1.0f, 2.0f, 0.0f, 1.0f, -3.0f};
  const std::vector<int32_t> labels = {2, 1};
  const Output expected = Evaluate(scores, labels, /*classes=*/3);
  SoftmaxCrossEntropyResult result;
  CpuStream stream;
  ASSERT_TRUE(SoftmaxCrossEntropy(/*samples=*/2, /*classes=*/3, scores.data(), labels.data(),
                                  scores.data(), &result, /*scratch=*/nullptr, stream)
                  .ok());
  EXPECT_EQ(scores, expected.gradient);
  EXPECT_EQ(result.loss_sum, expected.result.loss_sum);
  EXPECT_EQ(result.correct, expected.result.correct);
}

TEST(SoftmaxCrossEntropyTest, HugeScoresStayFinite) {
  const Output output = Evaluate({1e30f, -1e30f, 3e38f, -3e38f}, /*labels=*/{0, 1}, /*classes=*/2);
  EXPECT_EQ(output.gradient, (std::vector<float>{0.0f, 0.0f, 0.5f, -0.5f}));
  EXPECT_NEAR(output.result.loss_sum / 6e38, 1.0, 1e-6);
  EXPECT_EQ(output.result.correct, 1);
}

TEST(SoftmaxCrossEntropyTest, ShiftOfAllScoresChangesNothing) {
  const Output near = Evaluate({0.0f, 1.0f, 2.0f}, /*labels=*/{1}, /*classes=*/3);
  const Output far = Evaluate({1000.0f, 1001.0f, 1002.0f}, /*labels=*/{1}, /*classes=*/3);
  EXPECT_EQ(near.gradient, far.gradient);
  EXPECT_EQ(near.result.loss_sum, far.result.loss_sum);
}

TEST(SoftmaxCrossEntropyTest, FirstAmongEqualsIsTheAnswer) {
  EXPECT_EQ(Evaluate({1.0f, 1.0f}, /*labels=*/{0}, /*classes=*/2).result.correct, 1);
  EXPECT_EQ(Evaluate({1.0f, 1.0f}, /*labels=*/{1}, /*classes=*/2).result.correct, 0);
}

TEST(SoftmaxCrossEntropyTest, NanAndInfinityShowInTheLossAndAreNeverCorrect) {
  for (const int32_t label : {0, 1, 2}) {
    const Output nan = Evaluate({kNan, kNan, kNan}, {label}, /*classes=*/3);
    EXPECT_TRUE(std::isnan(nan.result.loss_sum));
    EXPECT_TRUE(std::isnan(nan.gradient[0]));
    EXPECT_EQ(nan.result.correct, 0);
    const Output infinite = Evaluate({0.0f, kInfinity, 0.0f}, {label}, /*classes=*/3);
    EXPECT_FALSE(std::isfinite(infinite.result.loss_sum));
    EXPECT_EQ(infinite.result.correct, 0);
  }
  EXPECT_TRUE(
      std::isnan(Evaluate({0.0f, kNan, 1.0f}, /*labels=*/{2}, /*classes=*/3).result.loss_sum));
}

TEST(SoftmaxCrossEntropyTest, LabelThatIsNoClassMakesTheLossNan) {
  for (const int32_t label : {-1, 3}) {
    const Output output = Evaluate({1.0f, 2.0f, 3.0f}, {label}, /*classes=*/3);
    EXPECT_TRUE(std::isnan(output.result.loss_sum));
    EXPECT_EQ(output.result.correct, 0);
  }
}

}  // namespace
}  // namespace capstan
