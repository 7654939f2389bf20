#include "server/coordinator/plans/replica_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/members/example_facts.h"
#include "server/coordinator/plans/replica_plan_rig.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ReplicaPlanTest, EachShardHasItsFirstCopyOnAnotherServer) {
  ReplicaRig rig;
  const v1::JobView view = rig.View();
  ASSERT_EQ(view.copies_size(), 4);
  for (int shard = 0; shard < 4; ++shard) {
    EXPECT_NE(view.copies(shard).server(), rig.example.facts.view.server_of_shard(shard));
    EXPECT_EQ(view.copies(shard).number(), 1u);
    EXPECT_FALSE(view.copies(shard).is_whole());
    EXPECT_EQ(view.copies(shard).fault(), "");
  }
}

TEST(ReplicaPlanTest, AJobWithOneReplicaHasNoCopies) {
  ReplicaRig rig(/*replicas=*/1);
  EXPECT_FALSE(rig.Take(Whole(/*server=*/0, {0})));
  EXPECT_THAT(rig.View().copies(), IsEmpty());
  EXPECT_FALSE(rig.Status().has_copies());
}

TEST(ReplicaPlanTest, NewsAreGivenOnceAHeartbeatAndOnce) {
  ReplicaRig rig;
  EXPECT_FALSE(rig.Take(BeatOfServer(0)));
  EXPECT_TRUE(rig.Take(Whole(/*server=*/0, {0, 3})));
  EXPECT_THAT(rig.AreWhole(), ElementsAre(true, false, false, true));
  EXPECT_FALSE(rig.Take(Whole(/*server=*/0, {0, 3})));
  EXPECT_THAT(rig.Events(), IsEmpty());
}

TEST(ReplicaPlanTest, ThatAllAreWholeIsToldOnce) {
  ReplicaRig rig;
  rig.Take(Whole(/*server=*/0, {0, 3}));
  rig.Take(Whole(/*server=*/1, {1}));
  rig.Take(Whole(/*server=*/2, {2}));
  rig.Take(Whole(/*server=*/2, {2}));
  EXPECT_THAT(rig.Events(), ElementsAre("all 4 shards have two equal copies"));
  EXPECT_EQ(rig.Status().copies().whole_size(), 4);
}

TEST(ReplicaPlanTest, OnlyThePrimaryCountsAndOnlyForTheNewestCopy) {
  ReplicaRig rig;
  EXPECT_FALSE(rig.Take(Whole(/*server=*/1, {0}))) << "another server's shard";
  EXPECT_FALSE(rig.Take(Whole(/*server=*/0, {0}, /*number=*/0)));
  EXPECT_FALSE(rig.Take(Whole(/*server=*/0, {0}, /*number=*/2)));
  EXPECT_FALSE(rig.Take(Whole(/*server=*/0, {4, UINT32_MAX}))) << "there is no such shard";
  EXPECT_FALSE(rig.Take(Fault(/*server=*/1, /*shard=*/0, "x")));
  EXPECT_FALSE(rig.Take(Fault(/*server=*/1, UINT32_MAX, "x")));
  EXPECT_FALSE(rig.Take(Whole(/*server=*/9, {0})));
  v1::HeartbeatRequest worker = Whole(/*server=*/0, {0});
  worker.set_role(v1::HeartbeatRequest::WORKER);
  EXPECT_FALSE(rig.Take(worker));
  EXPECT_THAT(rig.AreWhole(), ElementsAre(false, false, false, false));
  EXPECT_THAT(rig.Events(), IsEmpty());
}

TEST(ReplicaPlanTest, NothingCountsBeforeThePlacement) {
  ExampleFacts example;
  ReplicaPlan plan(example.facts);
  EXPECT_TRUE(plan.Report(Whole(/*server=*/0, {0})).ok());
  EXPECT_FALSE(plan.Settle(example.facts, example.events));
}

TEST(ReplicaPlanTest, ACopyThatDiffersIsGivenUp) {
  ReplicaRig rig;
  rig.Take(Whole(/*server=*/1, {1}));
  EXPECT_TRUE(rig.Take(Fault(/*server=*/1, /*shard=*/1, "slice 3 of table w\n")));
  EXPECT_FALSE(rig.Take(Whole(/*server=*/1, {1})));
  EXPECT_FALSE(rig.Take(Fault(/*server=*/1, /*shard=*/1, "again")));
  const v1::ShardCopy copy = rig.View().copies(1);
  EXPECT_FALSE(copy.is_whole());
  EXPECT_EQ(copy.fault(), "slice 3 of table w\\x0a");
  EXPECT_THAT(rig.Events(),
              ElementsAre(absl::StrCat("the copy of shard 1 on server ", copy.server(),
                                       " is given up, and server 1 goes on without it: slice 3 of "
                                       "table w\\x0a; another one is made in 100ms")));
  EXPECT_TRUE(rig.example.events[0].is_warning);
  const v1::CopyReport report = rig.Status().copies();
  ASSERT_EQ(report.faults_size(), 1);
  EXPECT_EQ(report.faults(0).shard(), 1u);
  EXPECT_EQ(report.faults(0).text(), copy.fault());
  rig.Take(Whole(/*server=*/0, {0, 3}));
  rig.Take(Whole(/*server=*/2, {2}));
  EXPECT_EQ(rig.example.events.size(), 1u) << "not all are whole";
}

TEST(ReplicaPlanTest, ACopyThatWasGivenUpIsMadeAgainAfterLongerAndLongerPauses) {
  ReplicaRig rig;
  for (uint64_t number = 1; number <= 15; ++number) {
    const absl::Duration pause =
        std::min(absl::Milliseconds(100) * (int64_t{1} << (number - 1)), absl::Minutes(10));
    EXPECT_TRUE(rig.Take(Fault(/*server=*/1, /*shard=*/1, "no room", number)));
    rig.example.clock.Advance(pause - absl::Milliseconds(1));
    EXPECT_FALSE(rig.Take(BeatOfServer(0)));
    EXPECT_EQ(rig.View().copies(1).number(), number);
    rig.example.clock.Advance(absl::Milliseconds(1));
    EXPECT_TRUE(rig.Take(BeatOfServer(0)));
    EXPECT_EQ(rig.View().copies(1).number(), number + 1);
    EXPECT_EQ(rig.View().copies(1).fault(), "");
    EXPECT_FALSE(rig.View().copies(1).is_whole());
  }
  rig.example.events.clear();
  EXPECT_FALSE(rig.Take(Whole(/*server=*/1, {1}, /*number=*/15))) << "that was given up";
  EXPECT_TRUE(rig.Take(Whole(/*server=*/1, {1}, /*number=*/16)));
  EXPECT_THAT(rig.Events(),
              ElementsAre(absl::StrCat("shard 1 has two equal copies now, on servers 1 and ",
                                       rig.View().copies(1).server())));
}

TEST(ReplicaPlanTest, NoCopyIsMadeOnceTheResultIsKnown) {
  ReplicaRig rig;
  EXPECT_TRUE(rig.Take(Fault(/*server=*/1, /*shard=*/1, "no room")));
  rig.example.facts.view.set_phase(v1::SAVING);
  rig.example.clock.Advance(absl::Minutes(1));
  EXPECT_FALSE(rig.Take(BeatOfServer(0)));
  EXPECT_NE(rig.View().copies(1).fault(), "");
  rig.example.facts.view.set_phase(v1::EVALUATING);
  EXPECT_TRUE(rig.Take(BeatOfServer(0))) << "a server may still be lost";
}

TEST(ReplicaPlanTest, AFaultsTextIsBoundedAndThereIsOne) {
  ReplicaRig rig;
  rig.Take(Fault(/*server=*/0, /*shard=*/0, std::string(5000, 'x')));
  rig.Take(Fault(/*server=*/1, /*shard=*/1, ""));
  EXPECT_EQ(rig.View().copies(0).fault().size(), 300u);
  EXPECT_NE(rig.View().copies(1).fault(), "");
}

TEST(ReplicaPlanTest, SumsAreOverTheServersLatestReports) {
  ReplicaRig rig;
  for (uint32_t server = 0; server < 3; ++server) {
    v1::HeartbeatRequest heartbeat = BeatOfServer(server);
    v1::CopyReport& report = *heartbeat.mutable_copies();
    report.set_bytes_to_copy(100);
    report.set_bytes_copied(10 * server);
    report.set_records(1 + server);
    report.set_record_bytes(1000 * server);
    report.set_records_unanswered(2);
    report.set_held_replies(3);
    EXPECT_FALSE(rig.Take(heartbeat)) << "no news for members";
    report.set_records(server);
    report.set_record_bytes(1);
    rig.Take(heartbeat);  // an older one
  }
  const v1::CopyReport sums = rig.Status().copies();
  EXPECT_EQ(sums.bytes_to_copy(), 300u);
  EXPECT_EQ(sums.bytes_copied(), 30u);
  EXPECT_EQ(sums.records(), 6u);
  EXPECT_EQ(sums.record_bytes(), 3000u);
  EXPECT_EQ(sums.records_unanswered(), 6u);
  EXPECT_EQ(sums.held_replies(), 9u);
}

TEST(ReplicaPlanTest, CopiesThatDoNotAcknowledgeAreInTheStatus) {
  ReplicaRig rig;
  v1::HeartbeatRequest heartbeat = BeatOfServer(1);
  for (const uint32_t shard : {1u, 0u, 7u}) {  // its own, another server's, and none
    v1::SilentCopy& silent = *heartbeat.mutable_copies()->add_silent();
    silent.set_shard(shard);
    silent.set_number(1);
    silent.set_seconds(3);
  }
  EXPECT_FALSE(rig.Take(heartbeat));
  ASSERT_EQ(rig.Status().copies().silent_size(), 1);
  EXPECT_EQ(rig.Status().copies().silent(0).shard(), 1u);
  heartbeat.mutable_copies()->clear_silent();
  rig.Take(heartbeat);
  EXPECT_EQ(rig.Status().copies().silent_size(), 0);
}

TEST(ReplicaPlanTest, EqualAtTheSmallestVersionOfTheServersWithSlices) {
  ReplicaRig rig(/*replicas=*/2, /*shards=*/3);  // server 2 has the empty shard alone
  const auto look = [&rig](uint32_t server, uint64_t version) {
    v1::HeartbeatRequest heartbeat = BeatOfServer(server);
    heartbeat.mutable_copies()->set_equal_at_version(version);
    rig.Take(heartbeat);
    return rig.Status().copies().equal_at_version();
  };
  EXPECT_EQ(look(0, 9), 0u) << "server 1 has not looked yet";
  EXPECT_EQ(look(1, 7), 7u);
  EXPECT_EQ(look(1, 12), 9u);
}

// The copies of these shards, which `server` has as primary, have been silent.
v1::HeartbeatRequest Silent(uint32_t server, const std::vector<uint32_t>& shards, double seconds) {
  v1::HeartbeatRequest heartbeat = BeatOfServer(server);
  for (const uint32_t shard : shards) {
    v1::SilentCopy& silent = *heartbeat.mutable_copies()->add_silent();
    silent.set_shard(shard);
    silent.set_number(1);
    silent.set_seconds(seconds);
  }
  return heartbeat;
}

TEST(ReplicaPlanTest, CopiesThatAcknowledgeNothingForALeaseAreGivenUpAndMadeAgain) {
  ReplicaRig rig;
  EXPECT_FALSE(rig.Take(Silent(/*server=*/0, {0, 3}, /*seconds=*/9.9)));
  EXPECT_TRUE(rig.Take(Silent(/*server=*/0, {0, 3, 1}, /*seconds=*/10)));
  const v1::ShardCopy copy = rig.View().copies(0);
  const std::string silence =
      absl::StrCat("server ", copy.server(), " has acknowledged nothing for 10 s");
  EXPECT_EQ(copy.fault(), silence);
  EXPECT_NE(rig.View().copies(3).fault(), "");
  EXPECT_EQ(rig.View().copies(1).fault(), "") << "it is another server's shard";
  EXPECT_EQ(rig.Status().copies().silent_size(), 0);
  EXPECT_EQ(rig.example.events[0].text.substr(0, silence.size()), silence);
  EXPECT_TRUE(rig.example.events[0].is_warning);
  rig.example.clock.Advance(absl::Milliseconds(99));
  EXPECT_FALSE(rig.Take(BeatOfServer(0)));
  rig.example.clock.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(rig.Take(BeatOfServer(0)));
  EXPECT_EQ(rig.View().copies(0).number(), 2u);
  EXPECT_EQ(rig.View().copies(0).server(), copy.server());
}

}  // namespace
}  // namespace capstan
