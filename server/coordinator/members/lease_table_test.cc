#include "server/coordinator/members/lease_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr MemberKey kServer{v1::HeartbeatRequest::SERVER, 0};
constexpr MemberKey kWorker{v1::HeartbeatRequest::WORKER, 0};
const absl::Time kStart = absl::FromUnixSeconds(1000);

TEST(LeaseTableTest, LeaseRunsOutAfterItsLength) {
  LeaseTable leases(absl::Seconds(10));
  leases.Renew(kWorker, kStart);
  EXPECT_EQ(leases.NextExpiry(), kStart + absl::Seconds(10));
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Seconds(9)), IsEmpty());
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Seconds(10)), ElementsAre(kWorker));
}

TEST(LeaseTableTest, RenewedLeaseRunsFromTheRenewal) {
  LeaseTable leases(absl::Seconds(10));
  leases.Renew(kServer, kStart);
  leases.Renew(kWorker, kStart);
  leases.Renew(kServer, kStart + absl::Seconds(5));
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Seconds(10)), ElementsAre(kWorker));
  EXPECT_EQ(leases.NextExpiry(), kStart + absl::Seconds(15));
}

TEST(LeaseTableTest, HeldLeaseDoesNotRun) {
  LeaseTable leases(absl::Seconds(10));
  leases.Renew(kServer, kStart);
  leases.Hold(kServer);
  EXPECT_EQ(leases.NextExpiry(), absl::InfiniteFuture());
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Hours(1)), IsEmpty());
}

TEST(LeaseTableTest, ALeaseThatIsToEndSoonerDoesSoUnlessItIsRenewed) {
  LeaseTable leases(absl::Seconds(10));
  leases.Renew(kWorker, kStart);
  leases.EndBy(kWorker, kStart + absl::Seconds(2));
  leases.EndBy(kWorker, kStart + absl::Seconds(3));
  EXPECT_EQ(leases.NextExpiry(), kStart + absl::Seconds(2));
  leases.Renew(kWorker, kStart + absl::Seconds(1));
  EXPECT_EQ(leases.NextExpiry(), kStart + absl::Seconds(11));
  leases.EndBy(kServer, kStart);
  EXPECT_THAT(leases.TakeExpired(kStart), IsEmpty());
}

TEST(LeaseTableTest, NothingRunsOutTwiceOrAfterClear) {
  LeaseTable leases(absl::Seconds(10));
  leases.Renew(kServer, kStart);
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Seconds(10)), ElementsAre(kServer));
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Seconds(10)), IsEmpty());
  leases.Renew(kWorker, kStart);
  leases.Clear();
  EXPECT_THAT(leases.TakeExpired(kStart + absl::Hours(1)), IsEmpty());
}

}  // namespace
}  // namespace capstan
