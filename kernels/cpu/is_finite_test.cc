#include "kernels/cpu/is_finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/vector_targets.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kSignallingNan = std::numeric_limits<float>::signaling_NaN();

TEST(IsFiniteTest, NumbersAreFinite) {
  ForEachVectorTarget([] {
    EXPECT_TRUE(IsFinite({}));
    for (const float number : {0.0f, -0.0f, 1.0f, kMax, -kMax, 0x1p-126f, 0x1p-149f, -0x1p-149f}) {
      for (const size_t size : {1, 16, 67}) {
        EXPECT_TRUE(IsFinite(std::vector<float>(size, number))) << number;
      }
    }
    Random random(/*seed=*/81);
    EXPECT_TRUE(IsFinite(NormalVector(1001, random)));
  });
}

TEST(IsFiniteTest, OneNonFiniteValueIsFoundWhereverItIs) {
  ForEachVectorTarget([] {
    for (const float value : {kInfinity, -kInfinity, kNan, -kNan, kSignallingNan}) {
      std::vector<float> values(131, 1.0f);
      for (size_t offset = 0; offset < 3; ++offset) {
        for (size_t i = offset; i < values.size(); ++i) {
          values[i] = value;
          EXPECT_FALSE(IsFinite(absl::MakeSpan(values).subspan(offset))) << value << " at " << i;
          values[i] = 1.0f;
        }
      }
    }
  });
}

TEST(IsFiniteTest, NeighboursAreNotLookedAt) {
  ForEachVectorTarget([] {
    std::vector<float> values(67, kNan);
    for (size_t i = 1; i + 1 < values.size(); ++i) values[i] = 1.0f;
    EXPECT_TRUE(IsFinite(absl::MakeSpan(values).subspan(1, 65)));
  });
}

}  // namespace
}  // namespace capstan
