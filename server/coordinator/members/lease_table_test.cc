#include "server/coordinator/members/lease_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Expired = LeaseTable::Expired;

constexpr MemberKey kServer{v1::HeartbeatRequest::SERVER, 0};
constexpr MemberKey kWorker{v1::HeartbeatRequest::WORKER, 0};
const absl::Time kStart = absl::FromUnixSeconds(1000);

TEST(LeaseTableTest, LeaseRunsOutAfterItsLength) {
  LeaseTable leases(absl::Seconds(10));
  leases.Renew(kWorker, kStart);
  EXPECT_EQ(leases.NextExpiry(), kStart + absl::Seconds(10));
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Seconds(9)), IsEmpty());
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Seconds(10)), ElementsAre(Expired{kWorker}));
}

TEST(LeaseTableTest, RenewedLeaseRunsFromTheRenewal) {
  LeaseTable leases(absl::Seconds(10));
  leases.Renew(kServer, kStart);
  leases.Renew(kWorker, kStart);
  leases.Renew(kServer, kStart + absl::Seconds(5));
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Seconds(10)), ElementsAre(Expired{kWorker}));
  EXPECT_EQ(leases.NextExpiry(), kStart + absl::Seconds(15));
}

TEST(LeaseTableTest, HeldLeaseDoesNotRun) {
  LeaseTable leases(absl::Seconds(10));
  leases.Renew(kServer, kStart);
  leases.Hold(kServer, kStart);
  EXPECT_EQ(leases.NextExpiry(), absl::InfiniteFuture());
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Hours(1)), IsEmpty());
}

TEST(LeaseTableTest, ALeaseThatBeginsAgainDoesNotRunWhileItIsHeld) {
  LeaseTable leases(absl::Seconds(10));
  leases.Begin(kWorker, kStart);
  EXPECT_EQ(leases.NextExpiry(), kStart + absl::Seconds(10));
  leases.Hold(kWorker, kStart);
  leases.Begin(kWorker, kStart);
  EXPECT_EQ(leases.NextExpiry(), absl::InfiniteFuture());
}

TEST(LeaseTableTest, ADoubtedLeaseEndsSoonUnlessItIsRenewed) {
  LeaseTable leases(absl::Seconds(10));
  leases.Renew(kWorker, kStart);
  leases.DoubtBroken(kWorker, kStart);
  leases.DoubtBroken(kWorker, kStart + absl::Seconds(1));
  EXPECT_EQ(leases.NextExpiry(), kStart + absl::Milliseconds(300));
  leases.Renew(kWorker, kStart);
  EXPECT_EQ(leases.NextExpiry(), kStart + absl::Seconds(10));
  leases.DoubtBroken(kServer, kStart);
  EXPECT_EQ(leases.NextExpiry(), kStart + absl::Seconds(10)) << "no lease of it runs";
}

TEST(LeaseTableTest, AClaimedPlaceIsFreeAtOnceIfItsConnectionHasBroken) {
  LeaseTable leases(absl::Seconds(10));
  leases.Renew(kServer, kStart);
  leases.DoubtClaimed(kServer, kStart);
  leases.Renew(kWorker, kStart);
  leases.DoubtBroken(kWorker, kStart);
  leases.DoubtClaimed(kWorker, kStart);
  EXPECT_THAT(leases.TakeExpired(kStart), ElementsAre(Expired{kWorker, true}));
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Milliseconds(300)),
              ElementsAre(Expired{kServer, true}));
}

TEST(LeaseTableTest, WhoIsHeardOfAgainIsNoLongerDoubted) {
  LeaseTable leases(absl::Seconds(10));
  leases.Renew(kWorker, kStart);
  leases.DoubtBroken(kWorker, kStart);
  leases.Hold(kWorker, kStart);
  leases.Renew(kWorker, kStart);
  leases.DoubtClaimed(kWorker, kStart);
  EXPECT_EQ(leases.NextExpiry(), kStart + absl::Milliseconds(300)) << "it is not broken";
  leases.Hold(kWorker, kStart);
  leases.Renew(kWorker, kStart);
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Seconds(10)), ElementsAre(Expired{kWorker, false}));
}

TEST(LeaseTableTest, WhoIsAwaitedIsAbsentASecondAfterTheFirstOneHasCome) {
  LeaseTable leases(absl::Seconds(10));
  leases.Await(kServer, kStart);
  leases.Await(kWorker, kStart);
  EXPECT_THAT(leases.TakeAbsent(kStart + absl::Seconds(5)), IsEmpty()) << "nobody has come";
  leases.Hold(kWorker, kStart + absl::Seconds(5));
  EXPECT_EQ(leases.NextExpiry(), kStart + absl::Seconds(6));
  EXPECT_THAT(leases.TakeAbsent(kStart + absl::Milliseconds(5999)), IsEmpty());
  EXPECT_THAT(leases.TakeAbsent(kStart + absl::Seconds(6)), ElementsAre(kServer));
  EXPECT_THAT(leases.TakeAbsent(kStart + absl::Seconds(9)), IsEmpty()) << "it was told";
  EXPECT_EQ(leases.NextExpiry(), kStart + absl::Seconds(10)) << "its lease runs as others do";
}

TEST(LeaseTableTest, NothingRunsOutTwiceOrAfterClear) {
  LeaseTable leases(absl::Seconds(10));
  leases.Renew(kServer, kStart);
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Seconds(10)), ElementsAre(Expired{kServer}));
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Seconds(10)), IsEmpty());
  leases.Renew(kWorker, kStart);
  leases.Clear();
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Hours(1)), IsEmpty());
}

TEST(LeaseTableTest, WhoRegistersIsNotDoubtedAsTheMemberBeforeIt) {
  LeaseTable leases(absl::Seconds(10));
  leases.Renew(kServer, kStart);
  leases.DoubtBroken(kServer, kStart);
  leases.Begin(kServer, kStart);
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Seconds(10)), ElementsAre(Expired{kServer, false}));
}

}  // namespace
}  // namespace capstan
