// The bytes of bfloat16, with every kind of vectors, against the two neighbours of each value.
#include "common/codec/bfloat16_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec_test_data.h"
#include "common/tensor/vector_targets.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint16_t kLargest = 0x7f7f;

float ValueOf(uint16_t bits) {
  const uint32_t widened = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &widened, sizeof(value));
  return value;
}

// The nearer one of the neighbours below and above; of two as near ones the even one.
uint16_t Reference(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint16_t inner = static_cast<uint16_t>(bits >> 16), outer = inner + 1;
  if ((inner & 0x7fff) == kLargest) return inner;
  const double to_inner = std::abs(double{value} - ValueOf(inner));
  const double to_outer = std::abs(double{value} - ValueOf(outer));
  if (to_inner == to_outer) return inner % 2 == 0 ? inner : outer;
  return to_inner < to_outer ? inner : outer;
}

std::vector<uint8_t> ReferenceBytes(const std::vector<float>& values) {
  std::vector<uint8_t> bytes;
  for (const float value : values) {
    const uint16_t bits = Reference(value);
    bytes.insert(bytes.end(), {static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> 8)});
  }
  return bytes;
}

// Any finite bits; every fourth value lies halfway between two bfloat16.
std::vector<float> FiniteBits(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits = random();
    if (i % 4 == 0) bits = (bits & 0xffff0000) | 0x8000;
    if ((bits & 0x7f800000) == 0x7f800000) bits ^= 0x40000000;
    std::memcpy(&values[i], &bits, sizeof(bits));
  }
  return values;
}

TEST(Bfloat16CodecTest, BytesAreThoseOfReadme) {
  ForEachVectorTarget([] {
    EXPECT_THAT(Encoded(*MakeBfloat16Codec(),
                        {1.0f, -2.0f, 0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, FLT_MAX, -FLT_MAX, -0.0f,
                         0x1.fep127f, 0x1p-149f},
                        TestKey()),
                ElementsAre(0x80, 0x3f, 0x00, 0xc0, 0x80, 0x3f, 0x82, 0x3f, 0x81, 0x3f, 0x7f, 0x7f,
                            0x7f, 0xff, 0x00, 0x80, 0x7f, 0x7f, 0x00, 0x00));
  });
}

TEST(Bfloat16CodecTest, BytesEqualTheReferenceWithEveryKindOfVectors) {
  const auto codec = MakeBfloat16Codec();
  for (const size_t n : {1, 2, 15, 33, 255, 256, 257, 1000, 300'000}) {
    const std::vector<float> values = FiniteBits(n, /*seed=*/n);
    const std::vector<uint8_t> expected = ReferenceBytes(values);
    std::vector<float> decoded(n);
    for (size_t i = 0; i < n; ++i) decoded[i] = ValueOf(Reference(values[i]));
    ForEachVectorTarget([&] {
      SCOPED_TRACE(testing::Message() << "n = " << n);
      EXPECT_TRUE(Encoded(*codec, values, TestKey()) == expected);
      EXPECT_TRUE(Bits(Decoded(*codec, expected, n)) == Bits(decoded));
    });
  }
}

TEST(Bfloat16CodecTest, ResidualEqualsTheReferenceWithEveryKindOfVectors) {
  const auto codec = MakeBfloat16Codec();
  for (const size_t n : {1, 255, 256, 300, 5000}) {
    const std::vector<float> values = TestValues(n, /*seed=*/1), before = TestValues(n, /*seed=*/2);
    std::vector<float> sums(n);
    for (size_t i = 0; i < n; ++i) sums[i] = values[i] + before[i];
    const std::vector<uint8_t> expected = ReferenceBytes(sums);
    for (float& sum : sums) sum -= ValueOf(Reference(sum));
    ForEachVectorTarget([&] {
      std::vector<float> residual = before;
      EXPECT_TRUE(Encoded(*codec, values, TestKey(), absl::MakeSpan(residual)) == expected);
      EXPECT_EQ(Bits(residual), Bits(sums)) << "n = " << n;
    });
  }
}

TEST(Bfloat16CodecTest, BytesThatAreNotFiniteAreRefusedWhereverTheyAre) {
  const auto codec = MakeBfloat16Codec();
  const size_t n = 300;
  for (const uint16_t bad : {0x7f80, 0xff80, 0x7f81, 0xffff, 0x7fc0}) {
    for (size_t at = 0; at < n; at += 13) {
      std::vector<uint8_t> bytes = Encoded(*codec, FiniteBits(n, /*seed=*/1), TestKey());
      std::memcpy(&bytes[2 * at], &bad, sizeof(bad));
      ForEachVectorTarget([&] {
        const absl::Status status = codec->Check(bytes, n);
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_THAT(std::string(status.message()), HasSubstr("element " + std::to_string(at)));
      });
    }
  }
}

}  // namespace
}  // namespace capstan
