// A coordinator that holds the places of lost workers: broken connections, and the time of a place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_job.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

v1::JobSpec JobWithPlaces() {
  v1::JobSpec job = ScriptedJob::Job();
  job.mutable_membership()->set_replace_seconds(20);
  job.mutable_membership()->set_allow_other_bits(false);
  return job;
}

class CoordinatorPlacesTest : public testing::Test {
 protected:
  explicit CoordinatorPlacesTest(const v1::JobSpec& job = JobWithPlaces()) : job_(job) {
    job_.StartTraining();
  }

  // The member's next heartbeat, which is parked.
  ScriptedJob::Beat Park(MemberKey member) {
    ScriptedJob::Beat beat = job_.Heartbeat(member, job_.View().version());
    EXPECT_FALSE(beat->has_value());
    return beat;
  }
  void Break(MemberKey member, std::optional<uint64_t> incarnation = {}) {
    v1::AttendRequest broken;
    broken.set_role(member.role);
    broken.set_id(member.id);
    broken.set_incarnation(incarnation.value_or(ScriptedJob::IncarnationOf(member)));
    job_.coordinator().NoteBroken(broken);
  }
  bool IsLive(int worker) { return job_.View().workers(worker).is_live(); }

  ScriptedJob job_;
};

TEST_F(CoordinatorPlacesTest, AWorkerWhoseConnectionHasBrokenIsLostAfterAShortTime) {
  const ScriptedJob::Beat beat = Park(Worker(1));
  Break(Worker(1));
  EXPECT_TRUE(beat->has_value()) << "the call is answered, though nobody hears it";
  job_.clock().Advance(absl::Milliseconds(299));
  EXPECT_TRUE(IsLive(1));
  job_.clock().Advance(absl::Milliseconds(1));
  EXPECT_FALSE(IsLive(1));
  EXPECT_TRUE(job_.View().workers(1).holds_place());
  const ScriptedJob::Beat late = job_.Heartbeat(Worker(1), 0);
  ASSERT_TRUE(late->has_value());
  EXPECT_THAT(std::string((*late)->status().message()),
              HasSubstr("worker 1 was declared dead because its connection had broken"));
}

TEST_F(CoordinatorPlacesTest, AHeartbeatInTimeKeepsTheWorkerAliveAndItsLeaseIsWhole) {
  Park(Worker(1));
  Break(Worker(1));
  job_.clock().Advance(absl::Milliseconds(299));
  Park(Worker(1));  // Answered after 0.5 s. From then on the worker is silent.
  job_.PassTime(absl::Milliseconds(10'499), {Server(0), Server(1), Worker(0)});
  EXPECT_TRUE(IsLive(1));
  job_.PassTime(absl::Milliseconds(1), {Server(0), Server(1), Worker(0)});
  EXPECT_FALSE(IsLive(1));
  EXPECT_THAT(std::string((*job_.Heartbeat(Worker(1), 0))->status().message()),
              HasSubstr("because it was silent for 10 s"));
}

TEST_F(CoordinatorPlacesTest, OthersHaveTheirWholeLeaseWhenAHeartbeatBreaks) {
  Park(Server(0));
  Break(Server(0));
  job_.FinishSteps(0);
  Break(Worker(0));  // It has no open step.
  Park(Worker(1));
  Break(Worker(1), /*incarnation=*/77);
  Break(Worker(2));  // There is none.
  job_.clock().Advance(absl::Seconds(9));
  EXPECT_EQ(job_.View().phase(), v1::TRAINING);
  EXPECT_TRUE(job_.View().servers(0).is_live());
  EXPECT_TRUE(IsLive(0) && IsLive(1));
}

TEST_F(CoordinatorPlacesTest, APlaceIsGivenUpWhenItsTimeIsOver) {
  Park(Worker(1));
  Break(Worker(1));
  job_.PassTime(absl::Milliseconds(20'299), {Server(0), Server(1), Worker(0)});
  EXPECT_EQ(job_.View().phase(), v1::TRAINING);
  job_.PassTime(absl::Milliseconds(1), {Server(0), Server(1), Worker(0)});
  EXPECT_EQ(job_.View().phase(), v1::FAILED);
  EXPECT_THAT(job_.View().reason(), HasSubstr("worker 1 has ended, or its connection has broken"));
}

class CoordinatorWithoutPlacesTest : public CoordinatorPlacesTest {
 protected:
  CoordinatorWithoutPlacesTest() : CoordinatorPlacesTest(ScriptedJob::Job()) {}
};

TEST_F(CoordinatorWithoutPlacesTest, ABrokenConnectionChangesNothing) {
  const ScriptedJob::Beat beat = Park(Worker(1));
  Break(Worker(1));
  EXPECT_FALSE(beat->has_value());
  job_.clock().Advance(absl::Seconds(9));
  EXPECT_TRUE(IsLive(1));
}

}  // namespace
}  // namespace capstan
