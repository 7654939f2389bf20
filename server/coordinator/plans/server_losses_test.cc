#include "server/coordinator/plans/server_losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "server/coordinator/plans/replica_plan_rig.h"

namespace capstan {
namespace {

struct LossRig : ReplicaRig {
  void LoseAndAdd(uint32_t server) {
    Lose(server);
    losses.Add(server, "has ended", /*shards_moved=*/2);
    SettleAll();
  }
  void SettleAll() {
    Settle();
    EXPECT_FALSE(losses.Settle(example.facts, example.events)) << "no news for members";
  }
  v1::GetStatusReply StatusOfLosses() const {
    v1::GetStatusReply status;
    losses.WriteToStatus(status);
    return status;
  }

  ServerLosses losses{example.facts, plan};
};

TEST(ServerLossesTest, AJobWithoutLossesHasNone) {
  LossRig rig;
  rig.SettleAll();
  EXPECT_EQ(rig.StatusOfLosses().server_losses_size(), 0);
  EXPECT_EQ(rig.StatusOfLosses().servers_lost(), 0u);
}

TEST(ServerLossesTest, ALossSaysWhatHappenedAndWhenAllWasWholeAgain) {
  LossRig rig;
  rig.MakeWhole();
  rig.LoseAndAdd(0);
  rig.example.clock.Advance(absl::Seconds(3));
  rig.SettleAll();
  v1::ServerLoss loss = rig.StatusOfLosses().server_losses(0);
  EXPECT_EQ(loss.server(), 0u);
  EXPECT_EQ(loss.what(), "has ended");
  EXPECT_EQ(loss.shards_moved(), 2u);
  EXPECT_EQ(loss.seconds_ago(), 3);
  EXPECT_EQ(loss.seconds_until_whole(), 0);
  rig.MakeWhole();
  rig.SettleAll();
  rig.example.clock.Advance(absl::Seconds(4));
  rig.SettleAll();
  loss = rig.StatusOfLosses().server_losses(0);
  EXPECT_EQ(loss.seconds_ago(), 7);
  EXPECT_EQ(loss.seconds_until_whole(), 3);
}

TEST(ServerLossesTest, ALaterLossIsCountedFromItsOwnTimeOn) {
  LossRig rig;
  rig.MakeWhole();
  rig.LoseAndAdd(0);
  rig.example.clock.Advance(absl::Seconds(1));
  rig.MakeWhole();
  rig.SettleAll();
  rig.Replace(0);
  rig.LoseAndAdd(1);
  EXPECT_EQ(rig.StatusOfLosses().servers_lost(), 2u);
  EXPECT_EQ(rig.StatusOfLosses().servers_replaced(), 1u);
  rig.example.clock.Advance(absl::Seconds(2));
  rig.MakeWhole();
  rig.SettleAll();
  EXPECT_EQ(rig.StatusOfLosses().server_losses(0).seconds_until_whole(), 1);
  EXPECT_EQ(rig.StatusOfLosses().server_losses(1).seconds_until_whole(), 2);
}

TEST(ServerLossesTest, TheLatestSixteenAreKept) {
  LossRig rig;
  for (uint32_t i = 0; i < 17; ++i) rig.losses.Add(/*server=*/i, "has ended", 0);
  const v1::GetStatusReply status = rig.StatusOfLosses();
  ASSERT_EQ(status.server_losses_size(), 16);
  EXPECT_EQ(status.server_losses(0).server(), 1u);
}

}  // namespace
}  // namespace capstan
