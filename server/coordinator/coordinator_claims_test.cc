#include <gtest/gtest.h>

#include <optional>

#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_job.h"

// Processes that ask for the rank of a worker which the coordinator believes to be alive.
namespace capstan {
namespace {

v1::JobSpec JobWithPlaces() {
  v1::JobSpec job = ScriptedJob::Job();
  job.mutable_membership()->set_replace_seconds(20);
  return job;
}

class CoordinatorClaimsTest : public testing::Test {
 protected:
  CoordinatorClaimsTest() : job_(JobWithPlaces()) {
    for (uint32_t id = 0; id < 2; ++id) {
      EXPECT_TRUE(job_.RegisterServer(ScriptedJob::IncarnationOf(Server(id))).ok());
      EXPECT_TRUE(Register(id, ScriptedJob::IncarnationOf(Worker(id))));
    }
    const uint64_t version = job_.View().version();
    for (uint32_t id = 0; id < 2; ++id) job_.Heartbeat(Server(id), version);
    EXPECT_EQ(job_.View().phase(), v1::TRAINING);
  }

  // False: the rank is not free.
  bool Register(uint32_t rank, uint64_t incarnation) {
    v1::RegisterWorkerRequest request;
    request.set_rank(rank);
    request.set_incarnation(incarnation);
    request.set_is_replaceable(true);
    request.set_may_enter_late(true);
    *request.add_tables() = ScriptedJob::Tables({64})[0];
    std::optional<bool> is_ok;
    CallCoordinator(job_.coordinator(), request, [&](auto reply) { is_ok = reply.ok(); });
    return is_ok.value();
  }
  bool Claim(uint32_t rank) { return Register(rank, /*incarnation=*/999); }
  void Park(MemberKey member) { job_.Heartbeat(member, job_.View().version()); }
  void Break(MemberKey member) {
    v1::AttendRequest broken;
    broken.set_role(member.role);
    broken.set_id(member.id);
    broken.set_incarnation(ScriptedJob::IncarnationOf(member));
    job_.coordinator().NoteBroken(broken);
  }
  bool IsLive(int worker) { return job_.View().workers(worker).is_live(); }

  ScriptedJob job_;
};

// It may have ended after the answer to its last heartbeat, when no call was open that could break.
TEST_F(CoordinatorClaimsTest, AWorkerWithoutAHeartbeatIsLostSoonWhenAnotherAsksForItsRank) {
  EXPECT_FALSE(Claim(1));
  job_.clock().Advance(absl::Milliseconds(200));
  EXPECT_FALSE(Claim(1)) << "this does not give it more time";
  job_.clock().Advance(absl::Milliseconds(99));
  EXPECT_TRUE(IsLive(1));
  job_.clock().Advance(absl::Milliseconds(1));
  EXPECT_FALSE(IsLive(1));
  EXPECT_TRUE(IsLive(0));
  EXPECT_TRUE(Claim(1));
}

TEST_F(CoordinatorClaimsTest, AWorkerWithAHeartbeatIsNot) {
  Park(Worker(1));
  EXPECT_FALSE(Claim(1));
  job_.clock().Advance(absl::Seconds(9));
  EXPECT_TRUE(IsLive(1));
}

TEST_F(CoordinatorClaimsTest, AHeartbeatInTimeKeepsTheWorkerAlive) {
  EXPECT_FALSE(Claim(1));
  job_.clock().Advance(absl::Milliseconds(299));
  Park(Worker(1));
  job_.clock().Advance(absl::Seconds(9));
  EXPECT_TRUE(IsLive(1));
}

TEST_F(CoordinatorClaimsTest,
       AWorkerWhoseConnectionHasBrokenIsLostAtOnceWhenAnotherAsksForItsRank) {
  Park(Worker(1));
  Break(Worker(1));
  EXPECT_FALSE(Claim(1));
  job_.clock().Advance(absl::Milliseconds(1));
  EXPECT_FALSE(IsLive(1));
  EXPECT_TRUE(Claim(1));
}

TEST_F(CoordinatorClaimsTest, ARankThatTheJobDoesNotHaveHarmsNobody) {
  EXPECT_FALSE(Claim(7));
  job_.clock().Advance(absl::Seconds(1));
  EXPECT_TRUE(IsLive(0) && IsLive(1));
}

}  // namespace
}  // namespace capstan
