#include "common/tensor/bfloat16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace capstan {
namespace {

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

TEST(Bfloat16Test, EveryValueComesBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Bfloat16 value{static_cast<uint16_t>(bits)};
    const uint32_t quiet = std::isnan(ToFloat32(value)) ? bits | 0x40 : bits;
    ASSERT_EQ(ToBfloat16(ToFloat32(value)).bits, quiet) << bits;
  }
}

TEST(Bfloat16Test, KnownValues) {
  EXPECT_EQ(ToBfloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(ToBfloat16(-2.0f).bits, 0xc000);
  EXPECT_EQ(ToBfloat16(-0.0f).bits, 0x8000);
  EXPECT_EQ(ToBfloat16(3.14159265f).bits, 0x4049);
  EXPECT_EQ(ToFloat32(Bfloat16{0x3e80}), 0.25f);
}

// The reference compares distances to the two bfloat16 around a float32, instead of bits.
TEST(Bfloat16Test, RoundsToTheNearestAndToEvenBetweenTwo) {
  for (uint32_t upper = 0; upper < 0x7f7f; upper += 37) {
    for (const uint32_t lower : {0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const double value = FromBits(upper << 16 | lower);
      const double to_below = value - FromBits(upper << 16);
      const double to_above = FromBits((upper + 1) << 16) - value;
      const bool goes_up = to_above < to_below || (to_above == to_below && upper % 2 == 1);
      const uint32_t expected = goes_up ? upper + 1 : upper;
      ASSERT_EQ(ToBfloat16(static_cast<float>(value)).bits, expected) << value;
      ASSERT_EQ(ToBfloat16(static_cast<float>(-value)).bits, expected | 0x8000) << -value;
    }
  }
}

TEST(Bfloat16Test, BeyondTheLargestIsInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ToFloat32(ToBfloat16(std::numeric_limits<float>::max())), kInfinity);
  EXPECT_EQ(ToFloat32(ToBfloat16(-kInfinity)), -kInfinity);
}

TEST(Bfloat16Test, NanStaysNanWithItsSign) {
  // Also if all bits of the payload are cut off.
  for (const uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const Bfloat16 value = ToBfloat16(FromBits(bits));
    EXPECT_TRUE(std::isnan(ToFloat32(value))) << bits;
    EXPECT_EQ(value.bits >> 15, bits >> 31);
  }
}

}  // namespace
}  // namespace capstan
