// The loss of servers with shards and copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/coordinator/plans/replica_plan.h"
#include "server/coordinator/plans/replica_plan_rig.h"

namespace capstan {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

// The shards whose primary or copy the server is.
std::set<uint32_t> ShardsOf(const ReplicaRig& rig, uint32_t server) {
  std::set<uint32_t> shards;
  const v1::JobView view = rig.View();
  for (uint32_t shard = 0; shard < 4; ++shard) {
    if (rig.Primaries()[shard] == server) shards.insert(shard);
    if (view.copies(static_cast<int>(shard)).server() == server) shards.insert(shard);
  }
  return shards;
}

TEST(ReplicaPlanLossTest, AShardIsLostWithItsServerUnlessItsCopyIsWholeOrItHasNoSlices) {
  ReplicaRig rig;
  EXPECT_EQ(rig.plan.ShardsWithoutCopy(0), 1u) << "shard 3 has no slices";
  EXPECT_EQ(rig.plan.ShardsWithoutCopy(1), 1u);
  rig.Take(Whole(/*server=*/0, {0}));
  EXPECT_EQ(rig.plan.ShardsWithoutCopy(0), 0u);
  EXPECT_EQ(rig.plan.ShardsWithoutCopy(1), 1u);
  rig.Take(Fault(/*server=*/0, /*shard=*/0, "it differs"));
  EXPECT_EQ(rig.plan.ShardsWithoutCopy(0), 1u);
}

TEST(ReplicaPlanLossTest, WithOneReplicaAllShardsWithSlicesAreLost) {
  ReplicaRig rig(/*replicas=*/1);
  EXPECT_EQ(rig.plan.ShardsWithoutCopy(0), 1u);
  EXPECT_EQ(rig.plan.ShardsWithoutCopy(2), 1u);
}

TEST(ReplicaPlanLossTest, ShardsMoveToTheirCopies) {
  ReplicaRig rig;
  rig.MakeWhole();
  const v1::JobView before = rig.View();
  const std::map<uint32_t, uint32_t> taken = rig.Lose(0);
  EXPECT_EQ(rig.Primaries(),
            (std::vector<uint32_t>{before.copies(0).server(), 1, 2, before.copies(3).server()}));
  uint32_t num_taken = 0;
  for (const auto& [server, count] : taken) num_taken += count;
  EXPECT_EQ(num_taken, 2u);
  EXPECT_EQ(taken.count(0), 0u);
  for (const uint32_t shard : {0, 3}) {
    const v1::ShardCopy copy = rig.View().copies(static_cast<int>(shard));
    EXPECT_FALSE(copy.is_whole());
    EXPECT_EQ(copy.fault(), "server 0 is lost");
    EXPECT_EQ(copy.number(), 1u);
  }
}

TEST(ReplicaPlanLossTest, CopiesOnALostServerAreGivenUpAndTheirShardsStay) {
  ReplicaRig rig;
  rig.MakeWhole();
  const v1::JobView before = rig.View();
  rig.Lose(0);
  int lost = 0;
  for (const int shard : {1, 2}) {
    const bool was_there = before.copies(shard).server() == 0;
    EXPECT_EQ(rig.Primaries()[static_cast<size_t>(shard)], static_cast<uint32_t>(shard));
    EXPECT_EQ(rig.View().copies(shard).is_whole(), !was_there);
    EXPECT_EQ(rig.View().copies(shard).fault(), was_there ? "server 0 is lost" : "");
    lost += was_there;
  }
  EXPECT_GT(lost, 0) << "the test shows nothing";
}

TEST(ReplicaPlanLossTest, AnotherCopyIsMadeAtOnceOnALiveServerBesideThePrimary) {
  ReplicaRig rig;
  rig.MakeWhole();
  const v1::JobView before = rig.View();
  rig.Lose(0);
  EXPECT_TRUE(rig.Settle());
  const v1::JobView view = rig.View();
  for (int shard = 0; shard < 4; ++shard) {
    const uint32_t primary = rig.Primaries()[static_cast<size_t>(shard)];
    const bool is_new = shard == 0 || shard == 3 || before.copies(shard).server() == 0;
    EXPECT_EQ(view.copies(shard).server(), 3 - primary) << "servers 1 and 2 are left";
    EXPECT_EQ(view.copies(shard).number(), is_new ? 2u : 1u);
    EXPECT_EQ(view.copies(shard).is_whole(), !is_new);
    EXPECT_EQ(view.copies(shard).fault(), "");
  }
  EXPECT_FALSE(rig.Settle());
}

TEST(ReplicaPlanLossTest, AfterAFaultTheCopyIsMadeWhereItWasThoughAnotherServerIsEmpty) {
  ReplicaRig rig;
  rig.MakeWhole();
  rig.Lose(2);
  rig.Settle();
  rig.Replace(2);
  rig.MakeWhole();
  const v1::ShardCopy before = rig.View().copies(0);
  ASSERT_NE(before.server(), 2u);
  rig.Take(Fault(rig.Primaries()[0], /*shard=*/0, "no room", before.number()));
  rig.example.clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(rig.Settle());
  EXPECT_EQ(rig.View().copies(0).number(), before.number() + 1);
  EXPECT_EQ(rig.View().copies(0).server(), before.server());
}

TEST(ReplicaPlanLossTest, ThatAllAreWholeAgainIsToldOnceAndNotOfEachShard) {
  ReplicaRig rig;
  rig.MakeWhole();
  rig.Lose(0);
  rig.Settle();
  rig.example.events.clear();
  rig.MakeWhole();
  rig.MakeWhole();
  EXPECT_THAT(rig.Events(), ElementsAre("all 4 shards have two equal copies again"));
}

TEST(ReplicaPlanLossTest, OnlyTheNewPrimaryCountsAndOnlyForTheNewCopy) {
  ReplicaRig rig;
  rig.MakeWhole();
  rig.Lose(0);
  rig.Settle();
  const uint32_t primary = rig.Primaries()[0];
  EXPECT_FALSE(rig.Take(Whole(/*server=*/0, {0}, /*number=*/2)));
  EXPECT_FALSE(rig.Take(Whole(3 - primary, {0}, /*number=*/2)));
  EXPECT_FALSE(rig.Take(Whole(primary, {0}, /*number=*/1)));
  EXPECT_TRUE(rig.Take(Whole(primary, {0}, /*number=*/2)));
}

TEST(ReplicaPlanLossTest, TheLastServerMakesNoCopyUntilAnotherTakesAPlace) {
  ReplicaRig rig;
  rig.MakeWhole();
  rig.Lose(0);
  rig.Settle();
  rig.MakeWhole();
  rig.Lose(1);
  rig.example.clock.Advance(absl::Hours(1));
  rig.Settle();
  EXPECT_THAT(rig.Primaries(), ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(rig.plan.CopiesNotWhole(), 4u);
  for (int shard = 0; shard < 4; ++shard) {
    EXPECT_EQ(rig.View().copies(shard).fault(), "server 1 is lost");
  }
  EXPECT_THAT(rig.Status().copies().faults(), IsEmpty()) << "they were not given up";
  rig.Replace(0);
  EXPECT_TRUE(rig.Settle());
  for (int shard = 0; shard < 4; ++shard) {
    EXPECT_EQ(rig.View().copies(shard).server(), 0u);
    EXPECT_EQ(rig.View().copies(shard).fault(), "");
  }
  EXPECT_THAT(rig.Primaries(), ElementsAre(2, 2, 2, 2));
}

TEST(ReplicaPlanLossTest, TheSecondLossBeforeCopiesAreWholeIsCounted) {
  ReplicaRig rig;
  rig.MakeWhole();
  rig.Lose(0);
  rig.Settle();
  uint32_t without_copy = 0;
  for (const uint32_t server : {1, 2}) without_copy += rig.plan.ShardsWithoutCopy(server);
  const v1::JobView view = rig.View();
  EXPECT_EQ(without_copy, (view.copies(0).is_whole() ? 0u : 1u) +
                              (view.copies(1).is_whole() ? 0u : 1u) +
                              (view.copies(2).is_whole() ? 0u : 1u));
  EXPECT_GT(without_copy, 0u);
}

TEST(ReplicaPlanLossTest, AShardWithoutSlicesMovesToAnyLiveServerIfItsCopyIsLostToo) {
  ReplicaRig rig(/*replicas=*/2, /*shards=*/4, /*servers=*/4);
  rig.MakeWhole();
  const uint32_t copy = rig.View().copies(3).server();
  for (const uint32_t server : {copy, 3u}) {
    rig.example.Server(server).end = "it is gone";
    rig.plan.LoseServer(server);
  }
  EXPECT_THAT(rig.Primaries(), Not(Contains(3u)));
  EXPECT_THAT(rig.Primaries(), Not(Contains(copy)));
}

TEST(ReplicaPlanLossTest, EachOfManyShardsMovesToItsOwnCopy) {
  ReplicaRig rig(/*replicas=*/2, /*shards=*/13, /*servers=*/4);
  rig.MakeWhole();
  const v1::JobView before = rig.View();
  EXPECT_GT(rig.Lose(0).size(), 1u) << "the test shows nothing";
  for (const uint32_t shard : {0, 4, 8}) {
    EXPECT_EQ(rig.Primaries()[shard], before.copies(static_cast<int>(shard)).server());
  }
}

TEST(ReplicaPlanLossTest, NewCopiesAreBalanced) {
  ReplicaRig rig(/*replicas=*/2, /*shards=*/13, /*servers=*/4);
  rig.MakeWhole();
  rig.Lose(0);
  rig.Settle();
  std::vector<int> copies(4);
  const v1::JobView view = rig.View();
  for (int shard = 0; shard < 12; ++shard) {
    ++copies[rig.Primaries()[static_cast<size_t>(shard)]];
    ++copies[view.copies(shard).server()];
  }
  EXPECT_EQ(copies[0], 0);
  for (const uint32_t server : {1, 2, 3}) EXPECT_NEAR(copies[server], 8, 1) << server;
}

// Server 3 has shard 2 instead of its copy. That counts once.
TEST(ReplicaPlanLossTest, ACopyThatIsNoneAnyMoreNeedsNoRoom) {
  ExampleFacts example(/*num_servers=*/4, /*num_workers=*/1, ReplicaRig::Job(2, 4));
  example.facts.shard_bytes = {100, 10, 90, 10};
  for (const uint32_t server : {0, 1, 2, 3}) example.facts.view.add_server_of_shard(server);
  ReplicaPlan plan(example.facts);
  plan.OnPlacement(example.facts);
  const auto copies = [&plan] {
    v1::JobView view;
    plan.WriteToView(view);
    std::vector<uint32_t> servers;
    for (const v1::ShardCopy& copy : view.copies()) servers.push_back(copy.server());
    return servers;
  };
  ASSERT_THAT(copies(), ElementsAre(1, 2, 3, 0));
  example.Server(2).end = "it is gone";
  plan.LoseServer(2);
  plan.Settle(example.facts, example.events);
  EXPECT_THAT(copies(), ElementsAre(1, 3, 0, 0)) << "servers 0 and 1 have 110 bytes, 3 has 100";
}

TEST(ReplicaPlanLossTest, AFaultBeforeTheLossDoesNotDelayTheNextCopy) {
  ReplicaRig rig;
  rig.MakeWhole();
  const uint32_t backup = rig.View().copies(1).server();
  rig.Take(Fault(/*server=*/1, /*shard=*/1, "it cannot be reached"));
  rig.Lose(backup);
  EXPECT_EQ(rig.View().copies(1).fault(), absl::StrCat("server ", backup, " is lost"));
  EXPECT_TRUE(rig.Settle());
  EXPECT_EQ(rig.View().copies(1).number(), 2u);
  EXPECT_EQ(ShardsOf(rig, backup), std::set<uint32_t>());
}

TEST(ReplicaPlanLossTest, WhatALostServerHasSentStaysInTheSumsAndItsSuccessorBeginsAnew) {
  ReplicaRig rig;
  rig.MakeWhole();
  v1::HeartbeatRequest heartbeat = BeatOfServer(0);
  heartbeat.mutable_copies()->set_records(5);
  heartbeat.mutable_copies()->set_record_bytes(500);
  heartbeat.mutable_copies()->set_held_replies(3);
  rig.Take(heartbeat);
  rig.Lose(0);
  EXPECT_EQ(rig.Status().copies().record_bytes(), 500u);
  EXPECT_EQ(rig.Status().copies().held_replies(), 0u);
  rig.Replace(0);
  heartbeat.mutable_copies()->set_records(1);
  heartbeat.mutable_copies()->set_record_bytes(100);
  rig.Take(heartbeat);
  EXPECT_EQ(rig.Status().copies().record_bytes(), 600u);
  EXPECT_EQ(rig.Status().copies().held_replies(), 3u);
}

TEST(ReplicaPlanLossTest, ALostServerNeedNotLookWhetherCopiesAreEqual) {
  ReplicaRig rig;
  rig.MakeWhole();
  rig.Lose(0);
  for (const uint32_t server : {1, 2}) {
    v1::HeartbeatRequest heartbeat = BeatOfServer(server);
    heartbeat.mutable_copies()->set_equal_at_version(7);
    rig.Take(heartbeat);
  }
  EXPECT_EQ(rig.Status().copies().equal_at_version(), 7u);
}

}  // namespace
}  // namespace capstan
