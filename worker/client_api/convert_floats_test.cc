#include "worker/client_api/convert_floats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "worker/client_api/capstan.h"

namespace capstan {
namespace {

constexpr uint16_t kLargest = 0x7bff;  // 65504
constexpr uint16_t kInfinity = 0x7c00;

// By the definition of binary16; `bits` without the sign.
double ValueOf(uint16_t bits) {
  const int exponent = bits >> 10;
  const double mantissa = bits & 0x3ff;
  if (exponent == 0) return std::ldexp(mantissa, -24);
  return std::ldexp(1024 + mantissa, exponent - 25);
}

float Widened(uint16_t bits) {
  float value = -1;
  EXPECT_TRUE(ToFloats(&bits, CAPSTAN_FLOAT16, absl::MakeSpan(&value, 1)).ok());
  return value;
}

uint16_t Rounded(float value) {
  uint16_t bits = 0;
  EXPECT_TRUE(FromFloats(absl::MakeSpan(&value, 1), CAPSTAN_FLOAT16, &bits).ok());
  return bits;
}

// The nearest of all non-negative numbers, found by their definition; of two, the even one.
uint16_t Nearest(float value) {
  uint16_t low = 0, high = kLargest;
  while (low < high) {  // the last number that is not above `value`
    const auto middle = static_cast<uint16_t>((low + high + 1) / 2);
    (ValueOf(middle) <= value ? low : high) = ValueOf(middle) <= value ? middle : middle - 1;
  }
  const double below = value - ValueOf(low);
  const double above = (low == kLargest ? 65536 : ValueOf(low + 1)) - value;
  return below < above || (below == above && low % 2 == 0) ? low : low + 1;
}

TEST(ConvertFloatsTest, EveryFloat16HasItsValueAndComesBack) {
  for (uint32_t bits = 0; bits < kInfinity; ++bits) {
    ASSERT_EQ(Widened(static_cast<uint16_t>(bits)), ValueOf(static_cast<uint16_t>(bits))) << bits;
    ASSERT_EQ(Rounded(Widened(static_cast<uint16_t>(bits))), bits);
    ASSERT_EQ(Rounded(Widened(static_cast<uint16_t>(bits | 0x8000))), bits | 0x8000);
  }
}

TEST(ConvertFloatsTest, FloatsBecomeTheNearestFloat16) {
  constexpr uint64_t kSeed = 7;
  Random random(kSeed);
  for (int i = 0; i < 200000; ++i) {
    const int exponent =
        static_cast<int>(random.UniformInt(44)) - 27;  // from below the smallest on
    const float value =
        std::ldexp(1.0f + static_cast<float>(random.UniformInt(1 << 23)) * 0x1p-23f, exponent);
    if (value >= 65520) {
      ASSERT_EQ(Rounded(value), kInfinity) << value << ", seed " << kSeed;
    } else {
      ASSERT_EQ(Rounded(value), Nearest(value)) << value << ", seed " << kSeed;
    }
  }
}

TEST(ConvertFloatsTest, TiesGoToTheEvenOne) {
  for (uint32_t bits = 0; bits < kLargest; ++bits) {
    const auto low = static_cast<uint16_t>(bits);
    const auto middle =
        static_cast<float>((ValueOf(low) + ValueOf(static_cast<uint16_t>(low + 1))) / 2);
    ASSERT_EQ(Rounded(middle), low % 2 == 0 ? low : low + 1) << bits;
  }
}

TEST(ConvertFloatsTest, InfinitiesStayAndNanIsNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Rounded(infinity), 0x7c00);
  EXPECT_EQ(Rounded(-infinity), 0xfc00);
  EXPECT_EQ(Widened(0x7c00), infinity);
  EXPECT_EQ(Widened(0xfc00), -infinity);
  EXPECT_TRUE(std::isnan(Widened(0x7c01)));
  EXPECT_TRUE(std::isnan(Widened(Rounded(std::nanf("")))));
}

TEST(ConvertFloatsTest, Float32AndBfloat16GoBothWays) {
  const std::vector<float> values = {0, -1.5, 1e30f, 0.1f};
  std::vector<float> copy(4), widened(4);
  ASSERT_TRUE(FromFloats(values, CAPSTAN_FLOAT32, copy.data()).ok());
  EXPECT_EQ(copy, values);
  std::vector<uint16_t> narrow(4);
  ASSERT_TRUE(FromFloats(values, CAPSTAN_BFLOAT16, narrow.data()).ok());
  ASSERT_TRUE(ToFloats(narrow.data(), CAPSTAN_BFLOAT16, absl::MakeSpan(widened)).ok());
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(widened[i], values[i], std::abs(values[i]) / 256);
}

TEST(ConvertFloatsTest, RefusesWhatIsNoTypeAndNoMemory) {
  float value = 0;
  EXPECT_FALSE(ToFloats(&value, 3, absl::MakeSpan(&value, 1)).ok());
  EXPECT_FALSE(FromFloats(absl::MakeSpan(&value, 1), -1, &value).ok());
  EXPECT_FALSE(ToFloats(nullptr, CAPSTAN_FLOAT32, absl::MakeSpan(&value, 1)).ok());
  EXPECT_FALSE(FromFloats(absl::MakeSpan(&value, 1), CAPSTAN_FLOAT32, nullptr).ok());
}

}  // namespace
}  // namespace capstan
