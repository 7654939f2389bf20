#include "kernels/arrays.h"

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

TEST(FillTest, WritesEveryElementAndNoneBeyond) {
  CpuStream stream;
  for (const int n : {0, 1, 7, 1000}) {
    std::vector<float> values(n + 1, 5.0f);
    std::vector<float> expected(n, -0.5f);
    expected.push_back(5.0f);
    ASSERT_TRUE(Fill(n, /*value=*/-0.5f, values.data(), stream).ok());
    EXPECT_EQ(values, expected);
  }
}

TEST(CopyTest, CopiesEveryElementAndNoneBeyond) {
  CpuStream stream;
  Random random(/*seed=*/61);
  for (const int n : {0, 1, 7, 1000}) {
    const std::vector<float> source = NormalVector(n + 1, random);
    std::vector<float> target(n + 1, 9.0f);
    std::vector<float> expected = source;
    expected.back() = 9.0f;
    ASSERT_TRUE(Copy(n, source.data(), target.data(), stream).ok());
    EXPECT_EQ(target, expected);
  }
}

// bfloat16 has 8 bits of precision: a rounding error of at most half of 2^-7, relatively.
TEST(ConvertTest, ThereAndBackIsOffByHalfAUnitAtMost) {
  CpuStream stream;
  Random random(/*seed=*/62);
  for (const int64_t n : {0, 1, 7, 1001}) {
    const std::vector<float> source = NormalVector(n, random);
    std::vector<Bfloat16> rounded(n);
    std::vector<float> back(n);
    ASSERT_TRUE(ConvertToBfloat16(n, source.data(), rounded.data(), stream).ok());
    ASSERT_TRUE(ConvertToFloat32(n, rounded.data(), back.data(), stream).ok());
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_NEAR(back[i], source[i], 0x1p-8 * std::abs(source[i])) << "element " << i;
    }
  }
}

TEST(ConvertTest, NanAndInfinityStay) {
  CpuStream stream;
  const std::vector<float> source = {std::numeric_limits<float>::quiet_NaN(),
                                     -std::numeric_limits<float>::infinity()};
  std::vector<Bfloat16> rounded(2);
  std::vector<float> back(2);
  ASSERT_TRUE(ConvertToBfloat16(2, source.data(), rounded.data(), stream).ok());
  ASSERT_TRUE(ConvertToFloat32(2, rounded.data(), back.data(), stream).ok());
  EXPECT_TRUE(std::isnan(back[0]));
  EXPECT_EQ(back[1], source[1]);
}

}  // namespace
}  // namespace capstan
