#include "worker/models/sparse_training/logistic_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace capstan {
namespace {

TEST(LogisticLossTest, LossAndGradientAreThoseOfTheFormulas) {
  const std::vector<float> log_odds = {-30, -2, -0.5f, 0, 1, 3};
  const std::vector<float> labels = {0, 1, 0, 1, 0, 1};
  std::vector<float> gradient(labels.size());
  const double loss = LogisticLoss(log_odds, labels, /*scale=*/0.5f, absl::MakeSpan(gradient));
  double expected = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double p = 1 / (1 + std::exp(-double{log_odds[i]}));
    expected -= std::log(labels[i] == 1 ? p : 1 - p);
    EXPECT_NEAR(gradient[i], 0.5 * (p - labels[i]), 1e-7);
  }
  EXPECT_NEAR(loss, expected, 1e-9);
}

TEST(LogisticLossTest, LargeLogOddsAreFinite) {
  std::vector<float> gradient(2);
  const std::vector<float> log_odds = {1e30f, -1e30f};
  EXPECT_EQ(LogisticLoss(log_odds, {1, 0}, 1, absl::MakeSpan(gradient)), 0);
  EXPECT_EQ(gradient, (std::vector<float>{0, 0}));
  EXPECT_NEAR(LogisticLoss(log_odds, {0, 1}, 1, absl::MakeSpan(gradient)), 2e30, 1e24);
  EXPECT_EQ(gradient, (std::vector<float>{1, -1}));
}

TEST(LogisticLossTest, NotANumberStaysOne) {
  std::vector<float> gradient(1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(LogisticLoss({nan}, {1}, 1, absl::MakeSpan(gradient))));
  EXPECT_TRUE(std::isnan(gradient[0]));
}

}  // namespace
}  // namespace capstan
