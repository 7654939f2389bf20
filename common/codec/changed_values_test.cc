#include "common/codec/changed_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/random.h"

namespace capstan {
namespace {

using Values = std::vector<float>;
using Bytes = std::vector<uint8_t>;

Bytes Encode(const Values& from, const Values& to) {
  Bytes bytes(ChangedBytes(CountChanged(from, to)));
  EncodeChanged(from, to, absl::MakeSpan(bytes));
  return bytes;
}

bool SameBits(const Values& left, const Values& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0; });
}

std::string ErrorOf(const Bytes& bytes, size_t n) {
  return std::string(CheckChanged(bytes, n).message());
}

TEST(ChangedValuesTest, HasTheIndicesThenTheValues) {
  const Values from = {1, 2, 3, 4};
  const Values to = {1, -2, 3, 0.5f};
  EXPECT_EQ(Encode(from, to), Bytes({1, 0, 0, 0, 3, 0, 0, 0,  //
                                     0, 0, 0, 0xc0, 0, 0, 0, 0x3f}));
}

TEST(ChangedValuesTest, AReceiverOfTheOldValuesGetsTheBitsOfTheNewOnes) {
  constexpr uint64_t kSeed = 5;
  Random random(kSeed);
  for (const size_t n : {0, 1, 7, 64, 1000}) {
    Values from(n);
    for (float& value : from) value = random.Normal();
    Values to = from;
    size_t changed = 0;
    for (float& value : to) {
      if (random.UniformInt(3) != 0) continue;
      value = -value;
      ++changed;
    }
    SCOPED_TRACE(testing::Message() << n << " values, seed " << kSeed);
    EXPECT_EQ(CountChanged(from, to), changed);
    const Bytes bytes = Encode(from, to);
    ASSERT_TRUE(CheckChanged(bytes, n).ok());
    ApplyChanged(bytes, absl::MakeSpan(from));
    EXPECT_TRUE(SameBits(from, to));
  }
}

TEST(ChangedValuesTest, ComparesBitsSoThatNothingIsLost) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Values from = {0.0f, nan, nan, 1.0f};
  const Values to = {-0.0f, nan, 2.0f, nan};
  EXPECT_EQ(CountChanged(from, to), 3u);
  Values receiver = from;
  ApplyChanged(Encode(from, to), absl::MakeSpan(receiver));
  EXPECT_TRUE(SameBits(receiver, to));
}

TEST(ChangedValuesTest, NothingChangedIsNoBytes) {
  const Values values = {1, 2};
  EXPECT_TRUE(Encode(values, values).empty());
  EXPECT_TRUE(CheckChanged({}, 2).ok());
  EXPECT_TRUE(CheckChanged({}, 0).ok());
}

TEST(ChangedValuesTest, RefusesBytesThatAreNoElementsOfTheSlice) {
  const Bytes two = Encode({0, 0, 0}, {0, 1, 1});
  EXPECT_TRUE(CheckChanged(two, 3).ok());
  EXPECT_EQ(ErrorOf(two, 2), "expected ascending indices below 2, got 2 as index 1");
  EXPECT_EQ(ErrorOf(two, 1), "expected at most 1 changed elements of 8 bytes each, got 16 bytes");
  EXPECT_EQ(ErrorOf(Bytes(12), 3),
            "expected at most 3 changed elements of 8 bytes each, got 12 bytes");
  EXPECT_EQ(ErrorOf(Bytes(16), 3), "expected ascending indices below 3, got 0 as index 1");
}

}  // namespace
}  // namespace capstan
