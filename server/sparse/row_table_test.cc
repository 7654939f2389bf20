#include "server/sparse/row_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/random.h"
#include "common/routing/key_shard.h"
#include "server/sparse/row_hash.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kLargestKey = UINT64_MAX;

// What a row holds in these tests: floats that its key and `version` determine.
void FillRow(uint64_t key, float version, size_t floats, float* row) {
  for (size_t i = 0; i < floats; ++i) {
    row[i] = static_cast<float>(key % 65521) + version * static_cast<float>(i + 1);
  }
}

void InsertFilled(RowTable& table, const std::vector<uint64_t>& keys) {
  table.Insert(keys, [&](uint64_t key, float* row) {
    FillRow(key, /*version=*/1, table.floats_per_row(), row);
  });
}

std::vector<float*> Find(const RowTable& table, const std::vector<uint64_t>& keys) {
  std::vector<float*> rows(keys.size());
  table.Find(keys, absl::MakeSpan(rows));
  return rows;
}

// A table beside a std::map from each key to the version of its row.
class CheckedTable {
 public:
  CheckedTable(size_t floats_per_row, uint64_t seed) : table_(floats_per_row), random_(seed) {}

  // Inserts keys, or erases them, or changes their rows.
  void DoSomething(double erase_probability) {
    const std::vector<uint64_t> keys = SomeKeys();
    if (random_.Bernoulli(erase_probability)) {
      table_.Erase(keys);
      for (const uint64_t key : keys) expected_.erase(key);
    } else {
      InsertFilled(table_, keys);
      for (const uint64_t key : keys) expected_.emplace(key, 1);
      for (const uint64_t key : keys) Change(key);
    }
    Check(SomeKeys());
  }

  void CheckAll() {
    std::vector<uint64_t> keys;
    for (const auto& [key, version] : expected_) keys.push_back(key);
    EXPECT_EQ(table_.SortedKeys(), keys);
    Check(keys);
  }

  size_t size() const { return expected_.size(); }

 private:
  std::vector<uint64_t> SomeKeys() {
    std::vector<uint64_t> keys(1 + random_.UniformInt(200));
    for (uint64_t& key : keys) {
      const uint64_t id = random_.UniformInt(20'000);
      // Small keys, large ones, and some that differ only in their upper bits.
      key = id % 3 == 0 ? id / 3 : id % 3 == 1 ? kLargestKey - id / 3 : id << 40;
    }
    return keys;
  }

  void Change(uint64_t key) {
    FillRow(key, ++expected_[key], table_.floats_per_row(), Find(table_, {key})[0]);
  }

  void Check(const std::vector<uint64_t>& keys) {
    ASSERT_EQ(table_.size(), expected_.size());
    const std::vector<float*> rows = Find(table_, keys);
    std::vector<float> row(table_.floats_per_row());
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto expected = expected_.find(keys[i]);
      ASSERT_EQ(rows[i] != nullptr, expected != expected_.end()) << "key " << keys[i];
      if (rows[i] == nullptr) continue;
      FillRow(keys[i], expected->second, row.size(), row.data());
      ASSERT_TRUE(std::equal(row.begin(), row.end(), rows[i])) << "key " << keys[i];
    }
  }

  RowTable table_;
  Random random_;
  std::map<uint64_t, float> expected_;
};

TEST(RowTableTest, DoesWhatAMapDoes) {
  for (const size_t floats_per_row : {1, 3, 16, 33}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(testing::Message() << floats_per_row << " floats, seed " << seed);
      CheckedTable table(floats_per_row, seed);
      // Grows, then stays at a size, then shrinks.
      for (const double erase_probability : {0.1, 0.5, 0.9}) {
        for (int i = 0; i < 250; ++i) table.DoSomething(erase_probability);
        table.CheckAll();
      }
    }
  }
}

TEST(RowTableTest, WithAReservationHasRoomInTheOrderOfHashes) {
  constexpr size_t kRows = 20'000;
  std::vector<uint64_t> keys(kRows);
  std::iota(keys.begin(), keys.end(), 0);
  std::sort(keys.begin(), keys.end(),
            [](uint64_t a, uint64_t b) { return RowHashOf(a) < RowHashOf(b); });
  RowTable table(/*floats_per_row=*/2);
  table.Reserve(kRows);
  const size_t bytes = table.bytes();
  for (size_t i = 0; i < kRows; i += 100) {
    table.Insert(absl::MakeConstSpan(keys).subspan(i, 100),
                 [](uint64_t key, float* row) { row[0] = static_cast<float>(key); });
  }
  EXPECT_EQ(table.bytes(), bytes) << "it has not grown";
  std::vector<float*> rows(kRows);
  table.Find(keys, absl::MakeSpan(rows));
  for (size_t i = 0; i < kRows; ++i) {
    ASSERT_NE(rows[i], nullptr);
    EXPECT_EQ(rows[i][0], static_cast<float>(keys[i]));
  }
  const uint64_t more = kRows;
  table.Insert({&more, 1}, [](uint64_t, float* row) { row[0] = 7; });
  EXPECT_EQ(table.size(), kRows + 1);
}

TEST(RowTableTest, IsEmptyAtFirst) {
  const RowTable table(/*floats_per_row=*/2);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_THAT(table.SortedKeys(), ElementsAre());
  EXPECT_THAT(Find(table, {0, 1, kLargestKey}), ElementsAre(nullptr, nullptr, nullptr));
}

TEST(RowTableTest, HoldsTheSmallestAndTheLargestKey) {
  RowTable table(/*floats_per_row=*/2);
  InsertFilled(table, {kLargestKey, 0, 5});
  EXPECT_THAT(table.SortedKeys(), ElementsAre(0, 5, kLargestKey));
  EXPECT_EQ(Find(table, {0})[0][1], 2.0f);
  table.Erase({0, kLargestKey});
  EXPECT_THAT(table.SortedKeys(), ElementsAre(5));
  EXPECT_THAT(Find(table, {0, kLargestKey}), ElementsAre(nullptr, nullptr));
}

TEST(RowTableTest, AKeyTwiceInABatchIsInsertedOnce) {
  RowTable table(/*floats_per_row=*/1);
  int filled = 0;
  const std::vector<uint64_t> keys = {7, 8, 7, 0, 0};
  table.Insert(keys, [&](uint64_t /*key*/, float* row) { *row = static_cast<float>(++filled); });
  EXPECT_EQ(filled, 3);
  const std::vector<float*> rows = Find(table, keys);
  EXPECT_EQ(rows[0], rows[2]);
  EXPECT_EQ(*rows[0], 1.0f);
}

TEST(RowTableTest, TheOrderOfKeysDoesNotDependOnTheHistory) {
  RowTable a(/*floats_per_row=*/1), b(/*floats_per_row=*/1);
  std::vector<uint64_t> keys;
  Random random(/*seed=*/3);
  for (int i = 0; i < 5000; ++i) keys.push_back(random.Next64());
  InsertFilled(a, keys);
  std::reverse(keys.begin(), keys.end());
  for (uint64_t key = 0; key < 10'000; ++key) {
    InsertFilled(b, {key});
  }
  InsertFilled(b, keys);
  for (uint64_t key = 0; key < 10'000; ++key) b.Erase({key});
  EXPECT_EQ(a.SortedKeys(), b.SortedKeys());
}

// The key with a hash; the inverse of the table's function.
uint64_t KeyWithHash(uint64_t hash) {
  constexpr uint64_t kInverse = 0xCFEE444D8B59A89B;
  hash *= kInverse;
  hash = (hash ^ (hash >> 32)) * kInverse;
  return hash ^ (hash >> 32);
}

// The table's function.
uint64_t HashOf(uint64_t key) {
  constexpr uint64_t kMultiplier = 0xD6E8FEB86659FD93;
  key = (key ^ (key >> 32)) * kMultiplier;
  return (key ^ (key >> 32)) * kMultiplier;
}

// How far the numbers of keys in 1024 equal ranges of hashes are from those of random hashes, in
// standard deviations of the chi-square sum.
double Unevenness(const std::vector<uint64_t>& keys) {
  constexpr size_t kRanges = 1024;
  std::vector<double> counts(kRanges);
  for (const uint64_t key : keys) ++counts[HashOf(key) / (UINT64_MAX / kRanges + 1)];
  const double expected = static_cast<double>(keys.size()) / kRanges;
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return (sum - (kRanges - 1)) / std::sqrt(2.0 * (kRanges - 1));
}

// A server has the keys of some shards only.
TEST(RowTableTest, TheKeysOfOneShardHaveHomesEverywhere) {
  constexpr uint64_t kSeed = 5;
  Random random(kSeed);
  const std::vector<std::function<uint64_t(uint64_t)>> kinds = {
      [&](uint64_t) { return random.Next64(); }, [](uint64_t i) { return i; },
      [](uint64_t i) { return i << 40; }, [](uint64_t i) { return i << 20; },
      [](uint64_t i) { return (i % 26) << 48 | i / 26; }};
  for (const uint64_t key : {uint64_t{0}, uint64_t{1}, uint64_t{12345} << 40, kLargestKey}) {
    ASSERT_EQ(KeyWithHash(HashOf(key)), key);
  }
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    for (const uint32_t shard_count : {2, 8, 10, 64}) {
      std::vector<std::vector<uint64_t>> keys_of_shard(shard_count);
      for (uint64_t i = 0; i < 20'000 * shard_count; ++i) {
        const uint64_t key = kinds[kind](i);
        keys_of_shard[ShardOfKey(key, shard_count).value()].push_back(key);
      }
      for (const uint32_t shard : {0u, shard_count / 2, shard_count - 1}) {
        EXPECT_LT(Unevenness(keys_of_shard[shard]), 6)
            << "keys " << kind << ", shard " << shard << " of " << shard_count << ", seed "
            << kSeed;
      }
    }
  }
}

// Chosen keys make the table slow, but not wrong. Here they all have the first home, or the last.
TEST(RowTableTest, HoldsKeysWithOneHome) {
  for (const bool is_last : {false, true}) {
    RowTable table(/*floats_per_row=*/2);
    std::vector<uint64_t> keys;
    for (uint64_t i = 1; i <= 2000; ++i) keys.push_back(KeyWithHash(is_last ? 0 - i : i));
    InsertFilled(table, keys);
    for (size_t i = 0; i < keys.size(); i += 2) table.Erase({keys[i]});
    EXPECT_EQ(table.size(), 1000u);
    const std::vector<float*> rows = Find(table, keys);
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(rows[i] != nullptr, i % 2 == 1) << i;
      if (rows[i] == nullptr) continue;
      EXPECT_EQ(rows[i][0], static_cast<float>(keys[i] % 65521) + 1) << i;
    }
  }
}

TEST(RowTableTest, MemoryIsAtMostThreeTenthsAboveThePayloadOnAverage) {
  RowTable table(/*floats_per_row=*/1);
  constexpr double kPayload = sizeof(uint64_t) + sizeof(float);
  Random random(/*seed=*/4);
  double sum = 0, largest = 0;
  int samples = 0;
  std::vector<uint64_t> keys(10'000);
  while (table.size() < 3'000'000) {
    for (uint64_t& key : keys) key = random.Next64();
    table.Insert(keys, [](uint64_t /*key*/, float* row) { *row = 0; });
    if (table.size() < 1'000'000) continue;
    const double ratio = static_cast<double>(table.bytes()) / (kPayload * table.size());
    sum += ratio;
    largest = std::max(largest, ratio);
    ++samples;
  }
  EXPECT_LE(sum / samples, 1.3);
  EXPECT_LE(largest, 1.45);
}

}  // namespace
}  // namespace capstan
