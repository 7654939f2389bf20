#include "worker/dataset/sparse/binary_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "common/base/random.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

// The definition: every pair of samples with different labels.
double AucOfPairs(const std::vector<float>& scores, const std::vector<float>& labels) {
  double ordered = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] != 1 || labels[j] != 0) continue;
      ++pairs;
      ordered += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  return ordered / pairs;
}

TEST(AucTest, EqualsTheDefinitionWithAndWithoutTies) {
  for (const uint64_t different_scores : {1, 2, 7, 1000000}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      Random random(seed);
      std::vector<float> scores(2 + random.UniformInt(200));
      std::vector<float> labels(scores.size());
      for (size_t i = 0; i < scores.size(); ++i) {
        scores[i] = static_cast<float>(random.UniformInt(different_scores)) - 3;
        labels[i] = random.Bernoulli(0.3) ? 1 : 0;
      }
      labels[0] = 0;
      labels[1] = 1;
      const absl::StatusOr<double> auc = Auc(scores, labels);
      ASSERT_TRUE(auc.ok()) << auc.status();
      EXPECT_NEAR(*auc, AucOfPairs(scores, labels), 1e-12)
          << "seed " << seed << ", " << different_scores << " scores";
    }
  }
}

TEST(AucTest, PerfectReversedAndEqualScores) {
  EXPECT_EQ(*Auc({1, 2, 3, 4}, {0, 0, 1, 1}), 1.0);
  EXPECT_EQ(*Auc({4, 3, 2, 1}, {0, 0, 1, 1}), 0.0);
  EXPECT_EQ(*Auc({5, 5, 5, 5}, {0, 1, 0, 1}), 0.5);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(*Auc({-kInfinity, kInfinity}, {0, 1}), 1.0);
}

TEST(AucTest, IsUndefinedForLabelsOfOneKindAndForNan) {
  EXPECT_EQ(Auc({1, 2}, {1, 1}).status().message(),
            "expected samples with both labels, got 0 with 0 and 2 with 1: use more samples");
  EXPECT_EQ(Auc({}, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Auc({1, std::nanf("")}, {0, 1}).status().message(),
              HasSubstr("got NaN for sample 1"));
  EXPECT_THAT(Auc({1, 2}, {0}).status().message(),
              HasSubstr("expected a score for each of 1 labels, got 2"));
}

TEST(BinaryMetricsTest, EqualTheirDefinitions) {
  Random random(/*seed=*/1);
  BinaryMetrics metrics;
  double loss = 0, correct = 0;
  for (int i = 0; i < 1000; ++i) {
    const float log_odds = 3 * random.Normal();
    const float label = random.Bernoulli(0.5) ? 1 : 0;
    metrics.Add(log_odds, label);
    const double probability = 1 / (1 + std::exp(-double{log_odds}));
    loss -= std::log(label == 1 ? probability : 1 - probability);
    correct += (probability > 0.5) == (label == 1) ? 1 : 0;
  }
  EXPECT_EQ(metrics.count(), 1000u);
  EXPECT_NEAR(metrics.log_loss(), loss / 1000, 1e-12);
  EXPECT_DOUBLE_EQ(metrics.accuracy(), correct / 1000);
}

TEST(BinaryMetricsTest, LargeLogOddsHaveAFiniteLoss) {
  BinaryMetrics metrics;
  metrics.Add(1000, /*label=*/0);
  metrics.Add(-1000, /*label=*/0);
  EXPECT_DOUBLE_EQ(metrics.log_loss(), 500);
  EXPECT_DOUBLE_EQ(metrics.accuracy(), 0.5);
}

TEST(BinaryMetricsTest, TwoPartsAddUpToTheWhole) {
  BinaryMetrics whole, first, second;
  for (BinaryMetrics* metrics : {&whole, &first}) metrics->Add(1, 1);
  for (BinaryMetrics* metrics : {&whole, &second}) metrics->Add(-2, 1);
  first.Add(second);
  EXPECT_EQ(first.count(), 2u);
  EXPECT_DOUBLE_EQ(first.log_loss(), whole.log_loss());
  EXPECT_DOUBLE_EQ(first.accuracy(), whole.accuracy());
}

TEST(BinaryMetricsTest, AreZeroWithoutSamples) {
  EXPECT_EQ(BinaryMetrics().log_loss(), 0);
  EXPECT_EQ(BinaryMetrics().accuracy(), 0);
}

}  // namespace
}  // namespace capstan
