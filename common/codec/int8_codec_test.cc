// The bytes of int8, with every kind of vectors, against README.md element by element.
#include "common/codec/int8_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

constexpr size_t kBlock = 256;

// The draw of an element as a number between 0 and 1.
float ReferenceDraw(const DrawKey& key, size_t element) {
  const auto low = [](uint64_t number) { return static_cast<uint32_t>(number); };
  const auto high = [](uint64_t number) { return static_cast<uint32_t>(number >> 32); };
  const auto of_job =
      Philox4x32({low(key.seed), high(key.seed), key.table.value(), key.worker.value()}, {0, 0});
  const uint64_t block = key.first_element / 8 + element / 8;
  const auto words =
      Philox4x32({low(block), high(block), low(key.step.value()), high(key.step.value())},
                 {of_job[0], of_job[1]});
  const uint32_t word = words[element % 8 / 2];
  const double draw = element % 2 == 0 ? word % 65536 : word / 65536;
  return static_cast<float>((draw + 0.5) / 65536);
}

std::vector<uint8_t> ReferenceBytes(const std::vector<float>& values, const DrawKey& key) {
  std::vector<uint8_t> bytes;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, values.size());
    float max = 0;
    for (size_t i = begin; i < end; ++i) max = std::max(max, std::abs(values[i]));
    float scale = max / 127;
    while (!std::isfinite(scale * 127)) scale = std::nextafter(scale, 0.0f);
    if (max < 0x1p-100f) scale = 0;
    const auto* of_scale = reinterpret_cast<const uint8_t*>(&scale);
    bytes.insert(bytes.end(), of_scale, of_scale + sizeof(scale));
    for (size_t i = begin; i < end; ++i) {
      int q = 0;
      if (scale != 0) {
        const float inverse = 127 / max;
        const float scaled = values[i] * inverse;
        const float drawn = scaled + ReferenceDraw(key, i);
        q = std::clamp(static_cast<int>(std::floor(drawn)), -127, 127);
      }
      bytes.push_back(static_cast<uint8_t>(q));
    }
  }
  return bytes;
}

std::vector<float> ReferenceValues(const std::vector<uint8_t>& bytes, size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* const block = &bytes[i / kBlock * (kBlock + 4)];
    float scale;
    std::memcpy(&scale, block, sizeof(scale));
    values[i] = static_cast<float>(static_cast<int8_t>(block[4 + i % kBlock])) * scale;
  }
  return values;
}

std::vector<uint8_t> BytesOf(float scale, const std::vector<int8_t>& values) {
  std::vector<uint8_t> bytes(4 + values.size());
  std::memcpy(bytes.data(), &scale, 4);
  std::memcpy(bytes.data() + 4, values.data(), values.size());
  return bytes;
}

TEST(Int8CodecTest, BytesAreThoseOfReadme) {
  std::vector<float> values(16, 0.5f);
  values.insert(values.end(), {-100.25f, -100.25f, -100.25f, 254.0f});
  // The scale is 2. The draws of elements 3 and 11 are 0x44f9 and 0x45cc: 0.25 + u stays below 1.
  // Those of 0 and 7, 0xcff2 and 0xe324, raise 0.25 to 1.
  ForEachVectorTarget([&values] {
    EXPECT_THAT(
        Encoded(*MakeInt8Codec(), values, TestKey()),
        ElementsAre(0x00, 0x00, 0x00, 0x40, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00,
                    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xce, 0xce, 0xce, 0x7f));
  });
}

TEST(Int8CodecTest, BytesOfTheSecondBlockHaveItsScaleAndItsDraws) {
  std::vector<float> values(kBlock, 0.0f);
  values.insert(values.end(), {1.0f, -1.0f, 0.25f, -0.7f});
  ForEachVectorTarget([&values] {
    std::vector<uint8_t> bytes = Encoded(*MakeInt8Codec(), values, TestKey());
    EXPECT_EQ(std::count(bytes.begin(), bytes.begin() + 4 + kBlock, 0), 4 + kBlock);
    bytes.erase(bytes.begin(), bytes.begin() + 4 + kBlock);
    EXPECT_THAT(bytes, ElementsAre(0x04, 0x02, 0x01, 0x3c, 0x7f, 0x81, 0x20, 0xa7));
  });
}

TEST(Int8CodecTest, BytesEqualTheReferenceWithEveryKindOfVectors) {
  const auto codec = MakeInt8Codec();
  for (const size_t n : {1, 7, 31, 64, 255, 256, 257, 511, 1000, 20'000}) {
    const std::vector<float> values = TestValues(n, /*seed=*/n);
    const std::vector<uint8_t> expected = ReferenceBytes(values, TestKey());
    ForEachVectorTarget([&] {
      SCOPED_TRACE(testing::Message() << "n = " << n);
      EXPECT_TRUE(Encoded(*codec, values, TestKey()) == expected);
      EXPECT_EQ(Bits(Decoded(*codec, expected, n)), Bits(ReferenceValues(expected, n)));
    });
  }
}

TEST(Int8CodecTest, BytesDoNotDependOnHowATableIsCut) {
  const auto codec = MakeInt8Codec();
  const std::vector<float> values = TestValues(8 * kBlock, /*seed=*/5);
  DrawKey whole = TestKey();
  // The number of a block of Philox needs more than 32 bits from the middle on.
  whole.first_element = (uint64_t{8} << 32) - 4 * kBlock;
  const std::vector<uint8_t> expected = ReferenceBytes(values, whole);
  ForEachVectorTarget([&] {
    for (const size_t slice : {1, 2, 3, 8}) {
      std::vector<uint8_t> bytes;
      for (size_t begin = 0; begin < values.size(); begin += slice * kBlock) {
        const absl::Span<const float> part = absl::MakeSpan(values).subspan(begin, slice * kBlock);
        DrawKey key = whole;
        key.first_element += begin;
        const std::vector<uint8_t> encoded = Encoded(*codec, part, key);
        bytes.insert(bytes.end(), encoded.begin(), encoded.end());
      }
      EXPECT_TRUE(bytes == expected) << slice << " blocks a slice";
    }
  });
}

TEST(Int8CodecTest, BytesOfAnyBitsEqualTheReference) {
  const auto codec = MakeInt8Codec();
  Random random(/*seed=*/4);
  std::vector<float> values(100 * kBlock);
  for (size_t i = 0; i < values.size(); ++i) {
    // Exponents of a block stay below one limit, else its largest value hides the others.
    const uint32_t largest = 1 + static_cast<uint32_t>(i / kBlock * 5 / 2) % 254;
    const uint32_t exponent = random.UniformInt(9) > largest ? 0 : largest - random.UniformInt(9);
    const uint32_t bits = (random() & 0x807fffff) | std::min(exponent, largest) << 23;
    std::memcpy(&values[i], &bits, sizeof(bits));
  }
  const std::vector<uint8_t> expected = ReferenceBytes(values, TestKey());
  ForEachVectorTarget([&] {
    EXPECT_TRUE(Encoded(*codec, values, TestKey()) == expected);
    EXPECT_EQ(Bits(Decoded(*codec, expected, values.size())),
              Bits(ReferenceValues(expected, values.size())));
  });
}

TEST(Int8CodecTest, ResidualEqualsTheReferenceWithEveryKindOfVectors) {
  const auto codec = MakeInt8Codec();
  for (const size_t n : {1, 255, 256, 300, 5000}) {
    const std::vector<float> values = TestValues(n, /*seed=*/1), before = TestValues(n, /*seed=*/2);
    std::vector<float> sums(n);
    for (size_t i = 0; i < n; ++i) sums[i] = values[i] + before[i];
    const std::vector<uint8_t> expected = ReferenceBytes(sums, TestKey());
    const std::vector<float> decoded = ReferenceValues(expected, n);
    for (size_t i = 0; i < n; ++i) sums[i] -= decoded[i];
    ForEachVectorTarget([&] {
      std::vector<float> residual = before;
      EXPECT_TRUE(Encoded(*codec, values, TestKey(), absl::MakeSpan(residual)) == expected);
      EXPECT_EQ(Bits(residual), Bits(sums)) << "n = " << n;
    });
  }
}

TEST(Int8CodecTest, LargestValueKeepsItsScaleFinite) {
  const auto codec = MakeInt8Codec();
  const std::vector<float> values = {FLT_MAX, -FLT_MAX};
  const std::vector<uint8_t> bytes = Encoded(*codec, values, TestKey());
  EXPECT_THAT(bytes, ElementsAre(0x03, 0x02, 0x01, 0x7c, 0x7f, 0x81));
  const std::vector<float> decoded = Decoded(*codec, bytes, 2);
  EXPECT_NEAR(decoded[0] / FLT_MAX, 1, 1e-6);
  EXPECT_EQ(decoded[1], -decoded[0]);
}

TEST(Int8CodecTest, ValuesBelowTheSmallestMaximumAreZero) {
  const auto codec = MakeInt8Codec();
  const float below = std::nextafter(0x1p-100f, 0.0f);
  EXPECT_THAT(Encoded(*codec, {below, -below}, TestKey()), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_EQ(Encoded(*codec, {0x1p-100f, -0x1p-100f}, TestKey()),
            BytesOf(0x1p-100f / 127, {127, -127}));
}

// u takes each of 65536 values, and x + u >= floor(x) + 1 for round(65536 f) of them, if f is the
// fraction of x. So the expected byte is off from x by at most 2^-17. One byte has a variance of
// f (1 - f) <= 1/4, so the mean of 10^6 has a standard deviation of at most 0.0005. 5 of them are
// exceeded by chance once in 1.7 million.
TEST(Int8CodecTest, RoundingIsUnbiased) {
  const auto codec = MakeInt8Codec();
  constexpr size_t kDraws = 1'000'000;
  for (const float x : {10.5f, 0.25f, -3.9f, 100.01f, -0.001f}) {
    std::vector<float> values(kDraws, x);
    for (size_t i = 0; i < kDraws; i += kBlock) values[i] = 127;  // The scale is 1.
    const std::vector<float> decoded =
        Decoded(*codec, Encoded(*codec, values, TestKey()), values.size());
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < kDraws; ++i) {
      if (i % kBlock == 0) continue;
      ASSERT_LT(std::abs(decoded[i] - x), 1);
      sum += decoded[i];
      ++count;
    }
    EXPECT_NEAR(sum / static_cast<double>(count), x, 0x1p-17 + 5 * 0.5 / std::sqrt(count))
        << "seed " << TestKey().seed;
  }
}

TEST(Int8CodecTest, ScalesThatDecodeToNoFiniteValueAreRefused) {
  const auto codec = MakeInt8Codec();
  const float largest = 0x1.020406p121f;
  ASSERT_TRUE(std::isfinite(largest * 127));
  ASSERT_FALSE(std::isfinite(std::nextafter(largest, FLT_MAX) * 127));
  for (const float good : {0.0f, 1e-45f, 1.0f, largest}) {
    EXPECT_TRUE(codec->Check(BytesOf(good, {127, -127, 0}), 3).ok()) << good;
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {-0.0f, -1e-45f, -1.0f, -largest, std::nextafter(largest, FLT_MAX),
                          FLT_MAX, kInfinity, -kInfinity, std::nanf("")}) {
    EXPECT_EQ(codec->Check(BytesOf(bad, {0, 0, 0}), 3).code(), absl::StatusCode::kInvalidArgument);
    std::vector<uint8_t> bytes = BytesOf(1, std::vector<int8_t>(256, 1));
    const std::vector<uint8_t> second = BytesOf(bad, {0});
    bytes.insert(bytes.end(), second.begin(), second.end());
    const absl::Status status = codec->Check(bytes, 257);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("byte 260"));
  }
}

TEST(Int8CodecTest, SmallestByteDecodesWhereItIsFinite) {
  const auto codec = MakeInt8Codec();
  EXPECT_THAT(Decoded(*codec, BytesOf(2, {-128, 1}), 2), ElementsAre(-256, 2));
  const float largest = 0x1.fffffep120f;
  ASSERT_TRUE(std::isfinite(128 * largest));
  EXPECT_TRUE(codec->Check(BytesOf(largest, {-128}), 1).ok());
  const absl::Status status = codec->Check(BytesOf(0x1p121f, {5, -128}), 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the byte -128 and the scale"));
  EXPECT_TRUE(codec->Check(BytesOf(0x1p121f, {5, -127}), 2).ok());
}

}  // namespace
}  // namespace capstan
