#include "kernels/norm.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

NormResult Norm(const std::vector<float>& values) {
  CpuStream stream;
  NormResult result = {/*sum_of_squares=*/-1, /*non_finite=*/-1};
  const int64_t n = static_cast<int64_t>(values.size());
  EXPECT_EQ(SumOfSquaresScratchBytes(n, stream), 0u);
  EXPECT_TRUE(SumOfSquares(n, values.data(), &result, /*scratch=*/nullptr, stream).ok());
  return result;
}

TEST(SumOfSquaresTest, MatchesTheDefinition) {
  Random random(/*seed=*/63);
  for (const int64_t n : {0, 1, 7, 1001}) {
    const std::vector<float> values = NormalVector(n, random);
    long double expected = 0;
    for (const float value : values) expected += static_cast<long double>(value) * value;
    const NormResult result = Norm(values);
    EXPECT_NEAR(result.sum_of_squares, static_cast<double>(expected), 1e-12 * (1 + n));
    EXPECT_EQ(result.non_finite, 0);
  }
}

TEST(SumOfSquaresTest, LargeAndSmallValuesNeitherOverflowNorVanish) {
  EXPECT_EQ(Norm({0x1p127f, 0x1p127f}).sum_of_squares, 0x1p255);
  EXPECT_EQ(Norm({0x1p-140f}).sum_of_squares, 0x1p-280);
}

TEST(SumOfSquaresTest, NonFiniteValuesAreCountedAndNotAdded) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const NormResult result = Norm({3.0f, kInfinity, kNan, -kInfinity, 4.0f});
  EXPECT_EQ(result.sum_of_squares, 25.0);
  EXPECT_EQ(result.non_finite, 3);
}

}  // namespace
}  // namespace capstan
