#include "common/routing/key_shard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/random.h"

namespace capstan {
namespace {

// What keys may have in common. All are distinct for indexes below 2^20.
struct KeySet {
  const char* name;
  std::function<uint64_t(uint64_t index)> key;
};

const KeySet kKeySets[] = {
    {"dense", [](uint64_t i) { return i; }},
    {"multiples of 64", [](uint64_t i) { return i * 64; }},
    {"upper bits only", [](uint64_t i) { return i << 44; }},
    {"middle bits only", [](uint64_t i) { return i << 22; }},
    {"a field of 1000 in each of many tables",
     [](uint64_t i) { return (i / 1000) << 48 | i % 1000; }},
    {"large", [](uint64_t i) { return UINT64_MAX - i; }},
};

TEST(KeyShardTest, IsTheSameFunctionForEver) {
  struct Case {
    uint64_t key;
    uint64_t mixed;
    uint32_t shard_of_10;
    uint32_t shard_of_1000;
  };
  for (const Case& expected : {
           Case{0x0, 0x0000000000000000, 0, 0},
           Case{0x1, 0xb456bcfc6ee99552, 7, 704},
           Case{0x2, 0x3abf2a20785916f7, 2, 229},
           Case{0xdeadbeef, 0xd24bd59fef0ff763, 8, 821},
           Case{0x123456789abcdef, 0x87cbfbfecae7d115, 5, 530},
           Case{0x8000000000000000, 0x8f780810e88da09b, 5, 560},
           Case{0xffffffffffffffff, 0x64b5720b79d8e624, 3, 393},
       }) {
    EXPECT_EQ(MixedKey(expected.key), expected.mixed) << expected.key;
    EXPECT_EQ(ShardOfKey(expected.key, 10), ShardId(expected.shard_of_10)) << expected.key;
    EXPECT_EQ(ShardOfKey(expected.key, 1000), ShardId(expected.shard_of_1000)) << expected.key;
  }
}

TEST(KeyShardTest, OneShardHasAllKeys) {
  for (const uint64_t key : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    EXPECT_EQ(ShardOfKey(key, /*shard_count=*/1), ShardId(0));
  }
}

TEST(KeyShardTest, TheLargestNumberOfShardsIsInRange) {
  Random random(/*seed=*/1);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(ShardOfKey(random.Next64(), UINT32_MAX).value(), UINT32_MAX);
  }
}

// The sum has a mean of shard_count - 1, and a standard deviation of sqrt(2 * (shard_count - 1)),
// for keys in random shards.
double ChiSquare(const KeySet& set, uint64_t key_count, uint32_t shard_count) {
  std::vector<double> counts(shard_count);
  for (uint64_t i = 0; i < key_count; ++i) ++counts[ShardOfKey(set.key(i), shard_count).value()];
  const double expected = static_cast<double>(key_count) / shard_count;
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST(KeyShardTest, ShardsHaveEquallyManyKeys) {
  for (const KeySet& set : kKeySets) {
    for (const uint32_t shard_count : {2, 3, 8, 10, 64, 1000}) {
      const double sigma = std::sqrt(2.0 * (shard_count - 1));
      const double sum = ChiSquare(set, /*key_count=*/1 << 20, shard_count);
      EXPECT_LT(sum, shard_count - 1 + 6 * sigma) << set.name << ", " << shard_count << " shards";
    }
  }
}

TEST(KeyShardTest, EachBitOfTheKeyChangesHalfOfTheShards) {
  constexpr uint64_t kSeed = 2;
  Random random(kSeed);
  constexpr int kKeys = 4000;
  for (int bit = 0; bit < 64; ++bit) {
    int changed = 0;
    for (int i = 0; i < kKeys; ++i) {
      const uint64_t key = random.Next64();
      if (ShardOfKey(key, 2) != ShardOfKey(key ^ uint64_t{1} << bit, 2)) ++changed;
    }
    // 6 standard deviations.
    EXPECT_NEAR(changed, kKeys / 2, 190) << "bit " << bit << ", seed " << kSeed;
  }
}

}  // namespace
}  // namespace capstan
