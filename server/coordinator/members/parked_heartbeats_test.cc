#include "server/coordinator/members/parked_heartbeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kStart = absl::FromUnixSeconds(1000);

class ParkedHeartbeatsTest : public testing::Test {
 protected:
  void Park(uint32_t worker, uint64_t received_version, absl::Duration answer_in) {
    parked_.Park({{v1::HeartbeatRequest::WORKER, worker},
                  received_version,
                  kStart + answer_in,
                  [](const absl::StatusOr<v1::HeartbeatReply>&) {}});
  }
  static std::vector<uint32_t> WorkersOf(
      const std::vector<ParkedHeartbeats::Heartbeat>& heartbeats) {
    std::vector<uint32_t> workers;
    for (const auto& heartbeat : heartbeats) workers.push_back(heartbeat.member.id);
    return workers;
  }

  ParkedHeartbeats parked_;
};

TEST_F(ParkedHeartbeatsTest, NewsTakeHeartbeatsOfOlderViewsInTheOrderOfMembers) {
  Park(/*worker=*/3, /*received_version=*/4, absl::Seconds(1));
  Park(/*worker=*/1, /*received_version=*/5, absl::Seconds(1));
  Park(/*worker=*/2, /*received_version=*/3, absl::Seconds(1));
  EXPECT_THAT(WorkersOf(parked_.TakeOlderThan(5)), ElementsAre(2, 3));
  EXPECT_THAT(WorkersOf(parked_.TakeOlderThan(5)), IsEmpty());
  EXPECT_THAT(WorkersOf(parked_.TakeAll()), ElementsAre(1));
}

TEST_F(ParkedHeartbeatsTest, AHeartbeatIsDueAtItsTime) {
  EXPECT_EQ(parked_.NextDue(), absl::InfiniteFuture());
  Park(/*worker=*/0, /*received_version=*/1, absl::Seconds(2));
  Park(/*worker=*/1, /*received_version=*/1, absl::Seconds(1));
  EXPECT_EQ(parked_.NextDue(), kStart + absl::Seconds(1));
  EXPECT_THAT(WorkersOf(parked_.TakeDue(kStart + absl::Seconds(0.9))), IsEmpty());
  EXPECT_THAT(WorkersOf(parked_.TakeDue(kStart + absl::Seconds(1))), ElementsAre(1));
  EXPECT_EQ(parked_.NextDue(), kStart + absl::Seconds(2));
}

TEST_F(ParkedHeartbeatsTest, AMemberHasOneAtMost) {
  const MemberKey worker{v1::HeartbeatRequest::WORKER, 0};
  EXPECT_FALSE(parked_.Take(worker).has_value());
  Park(/*worker=*/0, /*received_version=*/1, absl::Seconds(1));
  EXPECT_TRUE(parked_.Has(worker));
  EXPECT_FALSE(parked_.Has({v1::HeartbeatRequest::SERVER, 0}));
  EXPECT_EQ(parked_.Take(worker)->received_version, 1u);
  EXPECT_FALSE(parked_.Has(worker));
}

}  // namespace
}  // namespace capstan
