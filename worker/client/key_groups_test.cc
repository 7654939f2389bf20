#include "worker/client/key_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/random.h"
#include "common/routing/key_shard.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Keys = std::vector<uint64_t>;

constexpr uint64_t kLargestKey = UINT64_MAX;

// By a std::map.
struct Expected {
  Expected(const Keys& batch, uint32_t shard_count) : keys_of_shard(shard_count) {
    std::map<std::pair<uint32_t, uint64_t>, uint32_t> index;
    for (const uint64_t key : batch) index[{ShardOfKey(key, shard_count).value(), key}] = 0;
    for (auto& [shard_and_key, i] : index) {
      i = static_cast<uint32_t>(keys.size());
      keys.push_back(shard_and_key.second);
      keys_of_shard[shard_and_key.first].push_back(shard_and_key.second);
    }
    for (const uint64_t key : batch) {
      key_of_input.push_back(index[{ShardOfKey(key, shard_count).value(), key}]);
    }
  }

  Keys keys;
  std::vector<Keys> keys_of_shard;
  std::vector<uint32_t> key_of_input;
};

void ExpectGroups(KeyGroups& groups, const Keys& batch, uint32_t shard_count) {
  SCOPED_TRACE(testing::Message() << batch.size() << " keys, " << shard_count << " shards");
  const Expected expected(batch, shard_count);
  ASSERT_TRUE(groups.Group(batch, shard_count).ok());
  EXPECT_TRUE(groups.keys() == Keys(expected.keys));
  EXPECT_TRUE(groups.key_of_input() == std::vector<uint32_t>(expected.key_of_input));
  size_t begin = 0;
  for (uint32_t shard = 0; shard < shard_count; ++shard) {
    EXPECT_EQ(groups.BeginOf(ShardId(shard)), begin);
    ASSERT_TRUE(groups.KeysOf(ShardId(shard)) == expected.keys_of_shard[shard]) << shard;
    begin += expected.keys_of_shard[shard].size();
  }
  EXPECT_EQ(groups.BeginOf(ShardId(shard_count)), begin);
}

TEST(KeyGroupsTest, DoesWhatAMapDoes) {
  // One object for all: batches leave nothing to the next one.
  KeyGroups groups;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    for (const size_t count : {0, 1, 2, 17, 1000, 10'000, 300}) {
      // From nearly equal keys to keys that hardly come twice.
      for (const uint64_t bound : {uint64_t{1}, uint64_t{3}, uint64_t{1000}, kLargestKey}) {
        Keys batch(count);
        for (uint64_t& key : batch) key = random.UniformInt(bound) - bound / 2;
        for (const uint32_t shard_count : {1, 2, 7, 64, 5000}) {
          ExpectGroups(groups, batch, shard_count);
        }
      }
    }
  }
}

TEST(KeyGroupsTest, PutsClustersOfKeysInOrder) {
  KeyGroups groups;
  constexpr uint64_t kSeed = 1;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Random random(kSeed);
  Keys fields(30'000), magnitudes(30'000), ends(5000);
  for (uint64_t& key : fields) key = random.UniformInt(26) << 48 | random.UniformInt(1 << 24);
  for (uint64_t& key : magnitudes) key = random.Next64() >> random.UniformInt(64);
  for (uint64_t& key : ends) key = random.UniformInt(100) - 50;
  for (const uint32_t shard_count : {1, 8}) {
    for (const Keys& batch : {fields, magnitudes, ends}) ExpectGroups(groups, batch, shard_count);
  }
}

TEST(KeyGroupsTest, HasNoKeysAtFirst) {
  const KeyGroups groups;
  EXPECT_THAT(groups.keys(), IsEmpty());
  EXPECT_THAT(groups.key_of_input(), IsEmpty());
}

TEST(KeyGroupsTest, HoldsTheSmallestAndTheLargestKey) {
  KeyGroups groups;
  ASSERT_TRUE(groups.Group({kLargestKey, 0, 5, 0, kLargestKey}, /*shard_count=*/1).ok());
  EXPECT_THAT(groups.keys(), ElementsAre(0, 5, kLargestKey));
  EXPECT_THAT(groups.key_of_input(), ElementsAre(2, 0, 1, 0, 2));
}

TEST(KeyGroupsTest, RefusesABatchThatIsTooLarge) {
  KeyGroups groups;
  ASSERT_TRUE(groups.Group({7}, /*shard_count=*/2).ok());
  const uint64_t key = 0;
  // Only the size is looked at.
  const absl::Status status =
      groups.Group(absl::MakeConstSpan(&key, KeyGroups::kMostKeys + 1), /*shard_count=*/2);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(status.message(),
            "expected a batch of at most 2147483648 keys, got 2147483649; take smaller batches");
  EXPECT_THAT(groups.keys(), ElementsAre(7));
}

class RowsOfKeyGroupsTest : public testing::TestWithParam<size_t> {
 protected:
  RowsOfKeyGroupsTest() : random_(kSeed), batch_(500) {
    // Some keys differ by less than the range of all keys tells at first.
    for (uint64_t& key : batch_) key = random_.UniformInt(3) << 62 | random_.UniformInt(60);
    EXPECT_TRUE(groups_.Group(batch_, kShards).ok());
  }

  std::vector<float> RandomValues(size_t rows) {
    std::vector<float> values(rows * dim_);
    for (float& value : values) value = random_.Normal();
    return values;
  }

  static constexpr uint64_t kSeed = 1;
  static constexpr uint32_t kShards = 4;
  const size_t dim_ = GetParam();
  Random random_;
  Keys batch_;
  KeyGroups groups_;
};

TEST_P(RowsOfKeyGroupsTest, EachInputHasTheRowOfItsKey) {
  const std::vector<float> rows = RandomValues(groups_.keys().size());
  std::vector<float> out(batch_.size() * dim_, -1);
  groups_.ExpandRows(rows, dim_, absl::MakeSpan(out));
  for (size_t i = 0; i < batch_.size(); ++i) {
    const size_t key =
        static_cast<size_t>(std::find(groups_.keys().begin(), groups_.keys().end(), batch_[i]) -
                            groups_.keys().begin());
    for (size_t j = 0; j < dim_; ++j) {
      ASSERT_EQ(out[i * dim_ + j], rows[key * dim_ + j]) << "seed " << kSeed;
    }
  }
}

TEST_P(RowsOfKeyGroupsTest, GradientsAreAddedInTheOrderOfInputs) {
  const std::vector<float> gradients = RandomValues(batch_.size());
  std::vector<float> sums(groups_.keys().size() * dim_, -1);
  for (uint32_t i = 0; i < kShards; ++i) {
    const ShardId shard(i);
    groups_.SumGradients(shard, gradients, dim_,
                         absl::MakeSpan(sums).subspan(groups_.BeginOf(shard) * dim_,
                                                      groups_.KeysOf(shard).size() * dim_));
  }
  for (size_t key = 0; key < groups_.keys().size(); ++key) {
    for (size_t j = 0; j < dim_; ++j) {
      float sum = 0;
      for (size_t i = 0; i < batch_.size(); ++i) {
        if (batch_[i] == groups_.keys()[key]) sum += gradients[i * dim_ + j];
      }
      ASSERT_EQ(sums[key * dim_ + j], sum) << "seed " << kSeed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dims, RowsOfKeyGroupsTest, testing::Values(1, 3, 4, 16, 17, 100),
                         testing::PrintToStringParamName());

TEST(KeyGroupsTest, AnEmptyBatchHasNoRows) {
  KeyGroups groups;
  ASSERT_TRUE(groups.Group({}, /*shard_count=*/3).ok());
  groups.ExpandRows({}, /*dim=*/16, {});
  groups.SumGradients(ShardId(2), {}, /*dim=*/16, {});
  EXPECT_THAT(groups.KeysOf(ShardId(2)), IsEmpty());
}

}  // namespace
}  // namespace capstan
