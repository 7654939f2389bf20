#include "common/routing/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "common/base/random.h"

namespace capstan {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

SliceKey Key(uint32_t table, uint32_t slice) { return {TableId(table), SliceIndex(slice)}; }

// max - min over the bins.
uint64_t Spread(absl::Span<const uint64_t> bytes) {
  const auto [min, max] = std::minmax_element(bytes.begin(), bytes.end());
  return *max - *min;
}

std::vector<uint64_t> RandomSizes(size_t count, uint64_t bound, uint64_t seed) {
  Random random(seed);
  std::vector<uint64_t> sizes(count);
  for (uint64_t& size : sizes) size = 1 + random.UniformInt(bound);
  return sizes;
}

TEST(ShardMapTest, HoldsEverySliceOnceInTheShardThatItNames) {
  const ShardMap map(/*table_elements=*/{1000, 7, 333}, /*slice_bytes=*/400, /*shard_count=*/4);
  std::set<SliceKey> seen;
  for (uint32_t shard = 0; shard < map.shard_count(); ++shard) {
    for (const SliceKey slice : map.SlicesOf(ShardId(shard))) {
      EXPECT_TRUE(seen.insert(slice).second);
      EXPECT_EQ(map.ShardOf(slice), ShardId(shard));
    }
  }
  EXPECT_EQ(seen.size(), 10u + 1u + 4u);
}

TEST(ShardMapTest, CountsEveryByteOnce) {
  const ShardMap map({1000, 7, 333}, 400, 4);
  uint64_t total = 0;
  for (uint32_t shard = 0; shard < 4; ++shard) total += map.BytesOf(ShardId(shard));
  EXPECT_EQ(total, 4u * (1000 + 7 + 333));
}

TEST(ShardMapTest, GivesTheLargestSlicesFirstAndTiesToTheLowestIndex) {
  // Slices of 8, 8 and 4 bytes, of 4 bytes, and of 8 bytes.
  const ShardMap map({5, 1, 2}, /*slice_bytes=*/8, /*shard_count=*/2);
  EXPECT_THAT(map.SlicesOf(ShardId(0)), ElementsAre(Key(0, 0), Key(2, 0)));
  EXPECT_THAT(map.SlicesOf(ShardId(1)), ElementsAre(Key(0, 1), Key(0, 2), Key(1, 0)));
}

TEST(ShardMapTest, ASparseTableHasASliceInEachShard) {
  const ShardMap map({5, 0, 1}, /*slice_bytes=*/8, /*shard_count=*/3);
  EXPECT_EQ(map.SliceCount(TableId(1)), 3u);
  for (uint32_t shard = 0; shard < 3; ++shard) {
    EXPECT_EQ(map.ShardOf(Key(1, shard)), ShardId(shard));
  }
  // The slices of dense tables are where they would be without it: of 8, 8, 4 and 4 bytes.
  EXPECT_THAT(map.SlicesOf(ShardId(1)), ElementsAre(Key(0, 1), Key(1, 1)));
  EXPECT_THAT(map.SlicesOf(ShardId(2)), ElementsAre(Key(0, 2), Key(1, 2), Key(2, 0)));
  EXPECT_THAT(map.shard_bytes(), ElementsAre(16u, 16u, 16u));
}

TEST(ShardMapTest, IsTheSameForTheSameTables) {
  const std::vector<uint64_t> tables = RandomSizes(/*count=*/50, /*bound=*/100'000, /*seed=*/1);
  const ShardMap a(tables, 4096, 64);
  const ShardMap b(tables, 4096, 64);
  for (uint32_t shard = 0; shard < 64; ++shard) {
    EXPECT_EQ(a.SlicesOf(ShardId(shard)), b.SlicesOf(ShardId(shard)));
  }
}

TEST(ShardMapTest, ShardsDifferByAtMostTheLargestSlice) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const ShardMap map(RandomSizes(30, 50'000, seed), /*slice_bytes=*/16'384, /*shard_count=*/8);
    EXPECT_LE(Spread(map.shard_bytes()), 16'384u) << "seed " << seed;
  }
}

TEST(ShardMapTest, LeavesShardsEmptyWhenThereAreMoreThanSlices) {
  const ShardMap map({3, 2}, /*slice_bytes=*/1024, /*shard_count=*/64);
  EXPECT_THAT(map.SlicesOf(ShardId(0)), ElementsAre(Key(0, 0)));
  EXPECT_THAT(map.SlicesOf(ShardId(1)), ElementsAre(Key(1, 0)));
  EXPECT_THAT(map.shard_bytes().subspan(2), Each(0u));
}

TEST(ShardMapTest, CutsASliceForEachElementWhenSlicesAreTiny) {
  const ShardMap map({3}, /*slice_bytes=*/1, /*shard_count=*/2);
  EXPECT_THAT(map.shard_bytes(), ElementsAre(8u, 4u));
}

TEST(ShardMapTest, HandlesTwoHundredThousandSlices) {
  const ShardMap map({200'000u * 256u}, /*slice_bytes=*/1024, /*shard_count=*/1024);
  EXPECT_LE(Spread(map.shard_bytes()), 1024u);
  EXPECT_EQ(map.ShardOf(Key(0, 199'999)), ShardId(199'999 % 1024));
}

TEST(PlaceShardsTest, GivesTheLargestShardFirstToTheServerThatHasLeast) {
  EXPECT_THAT(PlaceShards({1, 5, 3, 3}, /*num_servers=*/2),
              ElementsAre(ServerId(0), ServerId(0), ServerId(1), ServerId(1)));
}

TEST(PlaceShardsTest, ServersDifferByAtMostTheLargestShard) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<uint64_t> shard_bytes = RandomSizes(/*count=*/64, /*bound=*/1000, seed);
    std::vector<uint64_t> server_bytes(5);
    const std::vector<ServerId> server_of_shard = PlaceShards(shard_bytes, /*num_servers=*/5);
    ASSERT_EQ(server_of_shard.size(), 64u);
    for (size_t shard = 0; shard < 64; ++shard) {
      server_bytes.at(server_of_shard[shard].value()) += shard_bytes[shard];
    }
    EXPECT_LE(Spread(server_bytes), *std::max_element(shard_bytes.begin(), shard_bytes.end()))
        << "seed " << seed;
  }
}

TEST(PlaceShardsTest, LeavesServersWithoutShardsWhenThereAreMoreServers) {
  EXPECT_THAT(PlaceShards({7}, /*num_servers=*/3), ElementsAre(ServerId(0)));
}

// The bytes that each server has: of its shards, and of the copies in its care.
std::vector<uint64_t> BytesWithCopies(absl::Span<const uint64_t> shard_bytes,
                                      const std::vector<ServerId>& shards,
                                      const std::vector<ServerId>& copies, size_t num_servers) {
  std::vector<uint64_t> bytes(num_servers);
  for (size_t shard = 0; shard < shard_bytes.size(); ++shard) {
    bytes.at(shards[shard].value()) += shard_bytes[shard];
    bytes.at(copies[shard].value()) += shard_bytes[shard];
  }
  return bytes;
}

TEST(PlaceCopiesTest, OfTwoServersEachHasTheOthersCopies) {
  EXPECT_THAT(PlaceCopies({1, 5, 0}, {ServerId(0), ServerId(1), ServerId(0)}, {"a", "a"}),
              ElementsAre(ServerId(1), ServerId(0), ServerId(1)));
}

TEST(PlaceCopiesTest, TheyAreOnOtherServersBalancedByBytes) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<uint64_t> shard_bytes = RandomSizes(/*count=*/64, /*bound=*/1000, seed);
    const std::vector<ServerId> shards = PlaceShards(shard_bytes, /*num_servers=*/5);
    const std::vector<ServerId> copies =
        PlaceCopies(shard_bytes, shards, std::vector<std::string>(5, "host"));
    ASSERT_EQ(copies.size(), 64u);
    for (size_t shard = 0; shard < 64; ++shard) {
      EXPECT_NE(copies[shard], shards[shard]) << "seed " << seed;
      EXPECT_LT(copies[shard].value(), 5u) << "seed " << seed;
    }
    EXPECT_LE(Spread(BytesWithCopies(shard_bytes, shards, copies, 5)),
              2 * *std::max_element(shard_bytes.begin(), shard_bytes.end()))
        << "seed " << seed;
  }
}

TEST(PlaceCopiesTest, TheyAreOnOtherHostsIfThereAreSeveral) {
  const std::vector<uint64_t> shard_bytes = RandomSizes(/*count=*/64, /*bound=*/1000, /*seed=*/3);
  const std::vector<ServerId> shards = PlaceShards(shard_bytes, /*num_servers=*/4);
  const std::vector<std::string> hosts = {"a", "b", "a", "b"};
  const std::vector<ServerId> copies = PlaceCopies(shard_bytes, shards, hosts);
  for (size_t shard = 0; shard < 64; ++shard) {
    EXPECT_NE(hosts[copies[shard].value()], hosts[shards[shard].value()]);
  }
}

TEST(PlaceCopiesTest, EachServersCopiesAreSpreadOverTheOthers) {
  for (const uint64_t size : {0u, 100u}) {
    const std::vector<uint64_t> shard_bytes(60, size);
    const std::vector<ServerId> shards = PlaceShards(shard_bytes, /*num_servers=*/4);
    const std::vector<ServerId> copies = PlaceCopies(shard_bytes, shards, {"a", "b", "c", "d"});
    std::map<std::pair<uint32_t, uint32_t>, int> pairs;
    for (size_t shard = 0; shard < 60; ++shard) {
      ++pairs[{shards[shard].value(), copies[shard].value()}];
    }
    EXPECT_EQ(pairs.size(), 12u) << size;
    for (const auto& [pair, count] : pairs) EXPECT_NEAR(count, 5, 1) << size;
  }
}

TEST(PlaceCopyTest, ItIsOnTheLiveServerWithTheFewestBytes) {
  const std::vector<ServerRoom> servers = {
      {"a", true, 1}, {"a", true, 9}, {"a", false, 0}, {"a", true, 7}, {"a", true, 7}};
  EXPECT_EQ(PlaceCopy(ServerId(0), servers), ServerId(3));
  EXPECT_EQ(PlaceCopy(ServerId(1), servers), ServerId(0));
}

TEST(PlaceCopyTest, ItIsOnAnotherHostIfALiveServerIsThere) {
  std::vector<ServerRoom> servers = {{"a", true, 0}, {"a", true, 1}, {"b", true, 9}};
  EXPECT_EQ(PlaceCopy(ServerId(0), servers), ServerId(2));
  servers[2].is_live = false;
  EXPECT_EQ(PlaceCopy(ServerId(0), servers), ServerId(1));
}

TEST(PlaceCopyTest, ThereIsNoneBesideTheLastServer) {
  EXPECT_EQ(PlaceCopy(ServerId(1), {{"a", false, 0}, {"b", true, 0}}), std::nullopt);
}

}  // namespace
}  // namespace capstan
