#include "server/coordinator/tuning/expected_improvement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace capstan {
namespace {

// The expectation as an integral, by the trapezoidal rule over 12 deviations.
double Integrated(double mean, double deviation, double target) {
  constexpr int kSteps = 200'000;
  const double width = 24 * deviation / kSteps;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = mean - 12 * deviation + i * width;
    const double z = (x - mean) / deviation;
    sum += std::max(0.0, target - x) * std::exp(-z * z / 2);
  }
  return sum * width / (deviation * std::sqrt(2 * std::acos(-1.0)));
}

TEST(ExpectedImprovementTest, IsTheIntegral) {
  for (const double mean : {-2.0, 0.0, 0.7}) {
    for (const double deviation : {0.1, 1.0, 3.0}) {
      for (const double target : {-1.5, 0.0, 2.0}) {
        EXPECT_NEAR(ExpectedImprovement(mean, deviation, target),
                    Integrated(mean, deviation, target), 1e-6)
            << mean << " +- " << deviation << " below " << target;
      }
    }
  }
}

TEST(ExpectedImprovementTest, WhatIsCertainIsTheDifference) {
  EXPECT_EQ(ExpectedImprovement(1, 0, 3), 2);
  EXPECT_EQ(ExpectedImprovement(3, 0, 1), 0);
}

TEST(ExpectedImprovementTest, IsNeverNegative) {
  EXPECT_GE(ExpectedImprovement(60, 1, 0), 0);
  EXPECT_LT(ExpectedImprovement(60, 1, 0), 1e-300);
}

}  // namespace
}  // namespace capstan
