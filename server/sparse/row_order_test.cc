#include "server/sparse/row_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/random.h"
#include "server/sparse/row_hash.h"

namespace capstan {
namespace {

TEST(RowOrderTest, KeysAreNearlyInTheOrderOfTheirHashes) {
  Random random(/*seed=*/5);
  for (const size_t size : {0, 1, 2, 3, 63, 64, 65, 1000, 2047, 2048}) {
    std::vector<uint64_t> keys(size);
    for (uint64_t& key : keys) key = random.Next64();
    const RowOrder order(keys);
    ASSERT_EQ(order.size(), size);
    std::vector<bool> is_there(size);
    uint64_t largest = 0;
    for (size_t i = 0; i < size; ++i) {
      EXPECT_EQ(order.keys()[i], keys[order.IndexOf(i)]);
      EXPECT_FALSE(is_there[order.IndexOf(i)]);
      is_there[order.IndexOf(i)] = true;
      // A part has 1 to 2 keys on average, so it is at most 2 / size of the range.
      const uint64_t hash = RowHashOf(order.keys()[i]);
      EXPECT_GE(hash, largest - std::min(largest, UINT64_MAX / size * 2)) << size;
      largest = std::max(largest, hash);
    }
  }
}

TEST(RowOrderTest, EqualKeysKeepTheirOrder) {
  Random random(/*seed=*/6);
  std::vector<uint64_t> keys(500);
  for (uint64_t& key : keys) key = random.UniformInt(20);
  const RowOrder order(keys);
  std::vector<size_t> last_index(20, 0);
  for (size_t i = 0; i < keys.size(); ++i) {
    size_t& last = last_index[order.keys()[i]];
    EXPECT_GE(order.IndexOf(i), last);
    last = order.IndexOf(i);
  }
}

TEST(RowOrderTest, AHashStandsForItsKey) {
  Random random(/*seed=*/7);
  EXPECT_EQ(RowHashOf(0), 0u);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t key = random.Next64();
    EXPECT_EQ(KeyOfRowHash(RowHashOf(key)), key);
  }
}

}  // namespace
}  // namespace capstan
