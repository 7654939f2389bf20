#include "common/codec/key_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/random.h"

namespace capstan {
namespace {

using Keys = std::vector<uint64_t>;
using Bytes = std::vector<uint8_t>;

constexpr uint64_t kLargestKey = UINT64_MAX;

Bytes Encode(const Keys& keys) {
  Bytes bytes(MostKeyListBytes(keys.size()));
  bytes.resize(EncodeKeyList(keys, absl::MakeSpan(bytes)));
  return bytes;
}

// In memory of just this size, so that a sanitizer sees each byte too many.
absl::StatusOr<size_t> Decode(const Bytes& bytes, Keys* keys) {
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), exact.get());
  return DecodeKeyList({exact.get(), bytes.size()}, absl::MakeSpan(*keys));
}

std::string ErrorOf(const Bytes& bytes, size_t count) {
  Keys keys(count);
  const absl::StatusOr<size_t> used = Decode(bytes, &keys);
  if (used.ok()) return "";
  EXPECT_TRUE(absl::IsInvalidArgument(used.status())) << used.status();
  return std::string(used.status().message());
}

// The layout as README.md has it, bit by bit.
class Reference {
 public:
  static Bytes Encode(const Keys& keys) {
    Bytes bytes;
    if (keys.empty()) return bytes;
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<uint8_t>(keys[0] >> (8 * i)));
    for (size_t begin = 1; begin < keys.size(); begin += 16) {
      const size_t end = std::min(begin + 16, keys.size());
      unsigned width = 0;
      for (size_t i = begin; i < end; ++i) {
        while (width < 64 && (keys[i] - keys[i - 1] - 1) >> width != 0) ++width;
      }
      if (width > 56) width = 64;
      bytes.push_back(static_cast<uint8_t>(width));
      size_t bits = 0;
      for (size_t i = begin; i < end; ++i) {
        for (unsigned bit = 0; bit < width; ++bit, ++bits) {
          if (bits % 8 == 0) bytes.push_back(0);
          const uint64_t value = (keys[i] - keys[i - 1] - 1) >> bit & 1;
          bytes.back() = static_cast<uint8_t>(bytes.back() | value << (bits % 8));
        }
      }
    }
    return bytes;
  }

  // The number of bytes used, or -1.
  static int64_t Decode(const Bytes& bytes, Keys* keys) {
    if (keys->empty()) return 0;
    if (bytes.size() < 8) return -1;
    (*keys)[0] = Number(bytes, 0, 64);
    size_t at = 8;
    for (size_t begin = 1; begin < keys->size(); begin += 16) {
      if (at >= bytes.size()) return -1;
      const unsigned width = bytes[at++];
      if (width > 64 || (width > 56 && width < 64)) return -1;
      const size_t end = std::min(begin + 16, keys->size());
      const size_t size = ((end - begin) * width + 7) / 8;
      if (bytes.size() < at + size) return -1;
      for (size_t i = begin; i < end; ++i) {
        const auto key = static_cast<unsigned __int128>((*keys)[i - 1]) +
                         Number(bytes, at * 8 + (i - begin) * width, width) + 1;
        if (key > kLargestKey) return -1;
        (*keys)[i] = static_cast<uint64_t>(key);
      }
      at += size;
    }
    return static_cast<int64_t>(at);
  }

 private:
  static uint64_t Number(const Bytes& bytes, size_t first_bit, unsigned width) {
    uint64_t number = 0;
    for (unsigned i = 0; i < width; ++i) {
      const size_t bit = first_bit + i;
      number |= uint64_t{bytes[bit / 8] >> (bit % 8) & 1u} << i;
    }
    return number;
  }
};

// Keys whose gaps have up to `gap_bits` bits. Ends early where keys end.
Keys RandomKeys(size_t count, int gap_bits, Random& random) {
  Keys keys;
  uint64_t key = random.Next64() >> random.UniformInt(64);
  while (keys.size() < count) {
    keys.push_back(key);
    const uint64_t gap =
        1 + (gap_bits == 0 ? 0 : (random.Next64() >> (64 - gap_bits)) >> random.UniformInt(3));
    if (gap == 0 || key + gap < key) break;
    key += gap;
  }
  return keys;
}

void ExpectReadsBack(const Keys& keys) {
  const Bytes bytes = Encode(keys);
  EXPECT_EQ(bytes, Reference::Encode(keys));
  Keys decoded(keys.size());
  const absl::StatusOr<size_t> used = Decode(bytes, &decoded);
  ASSERT_TRUE(used.ok()) << used.status();
  EXPECT_EQ(*used, bytes.size());
  EXPECT_EQ(decoded, keys);
}

TEST(KeyListTest, IsTheFirstKeyThenGapsInAsManyBitsAsTheLargestNeeds) {
  // Gaps less 1 are 0, 5 and 2: 3 bits each, the first one in the lowest bits.
  EXPECT_EQ(
      Encode({0x0102030405060708, 0x0102030405060709, 0x010203040506070f, 0x0102030405060712}),
      Bytes({8, 7, 6, 5, 4, 3, 2, 1, /*width=*/3, 0b10'101'000, 0b0}));
}

TEST(KeyListTest, EachGroupOfSixteenGapsHasItsWidth) {
  Keys keys;
  for (uint64_t key = 0; key < 17; ++key) keys.push_back(key);
  keys.push_back(16 + 0x1234);
  EXPECT_EQ(Encode(keys), Bytes({0, 0, 0, 0, 0, 0, 0, 0, /*width=*/0,  //
                                 /*width=*/13, 0x33, 0x12}));
}

TEST(KeyListTest, GapsOfMoreThan56BitsTakeEightBytes) {
  EXPECT_EQ(Encode({1, uint64_t{1} << 56}).size(), 8u + 1 + 7);
  EXPECT_EQ(Encode({0, (uint64_t{1} << 56) + 1}).size(), 8u + 1 + 8);
  EXPECT_EQ(Encode({0, kLargestKey}), Bytes({0, 0, 0, 0, 0, 0, 0, 0, /*width=*/64,  //
                                             0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}));
}

TEST(KeyListTest, NoKeysHaveNoBytes) {
  EXPECT_EQ(MostKeyListBytes(0), 0u);
  ExpectReadsBack({});
}

TEST(KeyListTest, ReadsTheSmallestAndTheLargestKey) {
  for (const Keys& keys : {Keys{0}, Keys{kLargestKey}, Keys{0, kLargestKey}, Keys{0, 1},
                           Keys{kLargestKey - 1, kLargestKey}}) {
    ExpectReadsBack(keys);
  }
}

TEST(KeyListTest, ReadsGapsOfAllWidths) {
  constexpr uint64_t kSeed = 1;
  Random random(kSeed);
  for (int gap_bits = 0; gap_bits <= 64; ++gap_bits) {
    for (const size_t count : {2, 3, 16, 17, 18, 33, 300}) {
      SCOPED_TRACE(testing::Message() << gap_bits << " bits, " << count << " keys, seed " << kSeed);
      ExpectReadsBack(RandomKeys(count, gap_bits, random));
    }
  }
}

TEST(KeyListTest, ReadsUniformKeysOfAllDensities) {
  constexpr uint64_t kSeed = 2;
  Random random(kSeed);
  for (int bits = 12; bits <= 64; bits += 4) {
    std::set<uint64_t> keys;
    while (keys.size() < 1000) keys.insert(random.Next64() >> (64 - bits));
    SCOPED_TRACE(testing::Message() << "keys of " << bits << " bits, seed " << kSeed);
    ExpectReadsBack(Keys(keys.begin(), keys.end()));
  }
}

TEST(KeyListTest, UniformKeysTakeAboutTheBitsThatTheyMust) {
  constexpr uint64_t kSeed = 3;
  Random random(kSeed);
  std::set<uint64_t> keys;
  while (keys.size() < 10'000) keys.insert(random.UniformInt(10'000 << 10));
  // A gap has an entropy of 10 + log2(e) = 11.4 bits.
  EXPECT_LT(Encode(Keys(keys.begin(), keys.end())).size(), 10'000 * 13 / 8) << "seed " << kSeed;
}

TEST(KeyListTest, NoListIsLongerThanTheMost) {
  for (const size_t count : {1, 2, 16, 17, 18, 33, 34, 100}) {
    // The last gap of each group has 64 bits, and there are no wider ones.
    Bytes bytes(MostKeyListBytes(count) + 1, 0xab);
    const Keys keys = [&] {
      Keys keys;
      for (uint64_t i = 0; i < count; ++i) keys.push_back(i * (kLargestKey / 100));
      return keys;
    }();
    const size_t used = EncodeKeyList(keys, absl::MakeSpan(bytes).first(MostKeyListBytes(count)));
    EXPECT_LE(used, MostKeyListBytes(count));
    EXPECT_EQ(bytes.back(), 0xab);
  }
}

TEST(KeyListTest, LeavesWhatFollowsTheList) {
  Bytes bytes = Encode({5, 9, 12});
  const size_t size = bytes.size();
  bytes.insert(bytes.end(), 100, 0xff);
  Keys keys(3);
  EXPECT_EQ(Decode(bytes, &keys).value(), size);
  EXPECT_EQ(keys, Keys({5, 9, 12}));
}

TEST(KeyListTest, ReadsGapsThatAreWiderThanNeeded) {
  Keys keys(3);
  EXPECT_EQ(Decode({7, 0, 0, 0, 0, 0, 0, 0, /*width=*/12, 0x01, 0x20, 0x00}, &keys).value(), 12u);
  EXPECT_EQ(keys, Keys({7, 9, 12}));
}

TEST(KeyListTest, DoesNotLookAtBitsBehindTheLastGap) {
  Keys keys(2);
  EXPECT_EQ(Decode({7, 0, 0, 0, 0, 0, 0, 0, /*width=*/3, 0b11111'001}, &keys).value(), 10u);
  EXPECT_EQ(keys, Keys({7, 9}));
}

TEST(KeyListTest, RefusesEveryTruncation) {
  Keys keys;
  for (uint64_t i = 0; i < 40; ++i) keys.push_back(i * i * i);
  const Bytes bytes = Encode(keys);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(ErrorOf(Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)), 40), "")
        << size << " bytes";
  }
}

TEST(KeyListTest, SaysWhichKeyIsCutOff) {
  EXPECT_EQ(ErrorOf({1, 2, 3}, 5),
            "expected a list of 5 keys, but its 3 bytes end before key 0 is complete");
}

TEST(KeyListTest, RefusesWidthsThatNoEncoderWrites) {
  for (int width = 0; width < 256; ++width) {
    Bytes bytes(200, 0);
    bytes[8] = static_cast<uint8_t>(width);
    const bool is_known = width <= 56 || width == 64;
    EXPECT_EQ(ErrorOf(bytes, 17), is_known ? ""
                                           : "expected gaps of 0 to 56 bits or of 64, got " +
                                                 std::to_string(width) + " bits from key 1 on");
  }
}

TEST(KeyListTest, RefusesKeysBeyondTheLargest) {
  const std::string error = "expected ascending keys below 2^64, but a key from 1 to 2 is larger";
  // A gap of 1 behind the largest key.
  EXPECT_EQ(ErrorOf({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0}, 3), error);
  // A gap of 2^64 would lead to the same key.
  Bytes bytes = {7, 0, 0, 0, 0, 0, 0, 0, /*width=*/64};
  bytes.insert(bytes.end(), 8, 0xff);
  bytes.insert(bytes.end(), 8, 0);
  EXPECT_EQ(ErrorOf(bytes, 3), error);
}

TEST(KeyListTest, RandomBytesGiveWhatTheReferenceGives) {
  constexpr uint64_t kSeed = 4;
  Random random(kSeed);
  int read = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes(random.UniformInt(80));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    if (bytes.size() > 8) bytes[8] = static_cast<uint8_t>(random.UniformInt(70));
    Keys keys(random.UniformInt(36)), expected(keys.size());
    const int64_t used = Reference::Decode(bytes, &expected);
    const absl::StatusOr<size_t> got = Decode(bytes, &keys);
    SCOPED_TRACE(testing::Message() << "case " << i << ", seed " << kSeed);
    ASSERT_EQ(got.ok() ? static_cast<int64_t>(*got) : -1, used);
    if (used < 0) continue;
    ASSERT_EQ(keys, expected);
    ++read;
  }
  EXPECT_GT(read, 1000);
}

TEST(KeyListDeathTest, KeysMustAscend) {
  EXPECT_DEATH(Encode({1, 1}), "the keys do not ascend");
  EXPECT_DEATH(Encode({2, 1}), "the keys do not ascend");
}

TEST(KeyListTest, ConsecutiveKeysTakeTheLeastBytes) {
  for (const size_t count : {0, 1, 2, 17, 18, 1000}) {
    Keys keys(count);
    for (size_t i = 0; i < count; ++i) keys[i] = 5 + i;
    EXPECT_EQ(Encode(keys).size(), LeastKeyListBytes(count)) << count;
  }
}

}  // namespace
}  // namespace capstan
