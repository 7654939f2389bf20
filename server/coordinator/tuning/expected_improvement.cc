#include "server/coordinator/tuning/expected_improvement.h"

#include <algorithm>
#include <cmath>

namespace capstan {

double ExpectedImprovement(double mean, double deviation, double target) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;
  const double improvement = target - mean;
  if (deviation <= 0) return std::max(0.0, improvement);
  const double z = improvement / deviation;
  const double probability = 0.5 * std::erfc(-z * kSqrtHalf);
  const double density = kInverseSqrtTwoPi * std::exp(-0.5 * z * z);
  return std::max(0.0, improvement * probability + deviation * density);
}

}  // namespace capstan
