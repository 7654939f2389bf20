#include "server/optimizer/reference_test_util.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>

#include "absl/types/span.h"
#include "common/base/random.h"

namespace capstan {
namespace {

constexpr int kApplications = 12;

std::vector<float> NormalVector(size_t size, Random& random) {
  std::vector<float> numbers(size);
  for (float& number : numbers) number = random.Normal();
  return numbers;
}

void ExpectFollowsAtSize(const Optimizer& optimizer, const ElementRule& rule, size_t size) {
  Random random(/*seed=*/7, /*stream=*/size);
  std::vector<float> values = NormalVector(size, random);
  std::vector<std::vector<float>> arrays(optimizer.state_count(), std::vector<float>(size));
  const std::vector<absl::Span<float>> state(arrays.begin(), arrays.end());
  std::vector<double> expected(values.begin(), values.end());
  std::vector<std::vector<double>> expected_state(size,
                                                  std::vector<double>(optimizer.state_count()));

  for (int64_t application = 1; application <= kApplications; ++application) {
    const std::vector<float> gradient = NormalVector(size, random);
    optimizer.Apply(gradient, {application}, absl::MakeSpan(values), state);
    for (size_t i = 0; i < size; ++i) {
      rule(gradient[i], application, expected[i], expected_state[i]);
      ASSERT_NEAR(values[i], expected[i], 3e-6 * (1 + std::abs(expected[i])))
          << "element " << i << " of " << size << " after application " << application;
    }
  }
}

}  // namespace

void ExpectFollows(const Optimizer& optimizer, const ElementRule& rule) {
  for (const size_t size : {0, 1, 7, 64, 1000}) ExpectFollowsAtSize(optimizer, rule, size);
}

}  // namespace capstan
