#include "tests/simulation/coordinator_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/membership/scripted_coordinator.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kTerm1 = uint64_t{1} << 40;
constexpr uint64_t kTerm2 = uint64_t{2} << 40;

// A view of a job with one shard, which has a copy.
v1::JobView View(uint64_t version) {
  v1::JobView view;
  view.set_version(version);
  view.set_phase(v1::TRAINING);
  view.set_epoch(1);
  view.add_server_of_shard(0);
  view.add_copies()->set_server(1);
  view.add_consistency()->mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  return view;
}

class CoordinatorCheckTest : public testing::Test {
 protected:
  CoordinatorCheckTest() {
    check_.BeginTerm(1, nullptr);
    first_ = check_.Watch(1, &coordinator_);
  }

  void BeginSecond(const v1::JobView& view) {
    SavedJob saved;
    *saved.state.mutable_view() = view;
    check_.BeginTerm(2, &saved);
    second_ = check_.Watch(2, &coordinator_);
  }
  void Tell(CoordinatorEndpoint& coordinator, const v1::JobView& view) {
    CallCoordinator(coordinator, v1::HeartbeatRequest(), [](absl::StatusOr<v1::HeartbeatReply>) {});
    v1::HeartbeatReply reply;
    reply.set_view(view.SerializeAsString());
    coordinator_.Of<v1::HeartbeatRequest>().Answer(reply);
  }
  void Register(CoordinatorEndpoint& coordinator, uint64_t incarnation) {
    v1::RegisterServerRequest request;
    request.set_incarnation(incarnation);
    CallCoordinator(coordinator, request, [](absl::StatusOr<v1::RegisterReply>) {});
    coordinator_.Of<v1::RegisterServerRequest>().Answer(v1::RegisterReply());
  }
  void Beat(uint64_t received_version, uint64_t view_version) {
    v1::HeartbeatRequest heartbeat;
    heartbeat.set_incarnation(7);
    heartbeat.set_received_version(received_version);
    heartbeat.set_view_version(view_version);
    check_.NoteHeartbeat(heartbeat);
  }

  ScriptedCoordinator coordinator_;
  CoordinatorCheck check_;
  std::unique_ptr<CoordinatorEndpoint> first_;
  std::unique_ptr<CoordinatorEndpoint> second_;
};

TEST_F(CoordinatorCheckTest, WhatWasKeptMayBeToldByBoth) {
  Tell(*first_, View(kTerm1 + 1));
  BeginSecond(View(kTerm1 + 2));
  Tell(*second_, View(kTerm2 + 1));
  Tell(*first_, View(kTerm1 + 2));
  Beat(kTerm1 + 1, kTerm1 + 1);
  Beat(kTerm2 + 1, kTerm1 + 1);
  check_.NoteOutcome("enough");
  check_.NoteOutcome("enough");
  EXPECT_EQ(check_.fault(), "");
  EXPECT_EQ(check_.terms(), 2);
}

TEST_F(CoordinatorCheckTest, TwoViewsOfOneVersionAreFound) {
  Tell(*first_, View(kTerm1 + 1));
  v1::JobView other = View(kTerm1 + 1);
  other.set_phase(v1::EVALUATING);
  Tell(*first_, other);
  EXPECT_THAT(check_.fault(), StartsWith("one view a version: "));
}

TEST_F(CoordinatorCheckTest, TwoPlacementsOfOneEpochAreFound) {
  Tell(*first_, View(kTerm1 + 1));
  BeginSecond(View(kTerm1 + 1));
  v1::JobView other = View(kTerm2 + 1);
  other.set_server_of_shard(0, 1);
  Tell(*second_, other);
  EXPECT_THAT(check_.fault(), StartsWith("one placement an epoch: "));
}

TEST_F(CoordinatorCheckTest, ACopysNumberThatIsGivenAgainIsFound) {
  Tell(*first_, View(kTerm1 + 1));
  BeginSecond(View(kTerm1 + 1));
  v1::JobView other = View(kTerm2 + 1);
  other.mutable_copies(0)->set_server(2);
  Tell(*second_, other);
  EXPECT_THAT(check_.fault(), HasSubstr("copy 0 of shard 0"));
}

TEST_F(CoordinatorCheckTest, AMemberThatActsOnALowerViewIsFound) {
  Beat(kTerm2 + 1, kTerm2 + 1);
  Beat(kTerm2 + 1, kTerm1 + 5);
  EXPECT_THAT(check_.fault(), StartsWith("no lower view: "));
}

TEST_F(CoordinatorCheckTest, AnErrorOfAnEarlierTermIsFound) {
  BeginSecond(View(kTerm1 + 1));
  for (const absl::Status& error : {absl::UnavailableError("late"), absl::CancelledError("late"),
                                    absl::FailedPreconditionError("lost")}) {
    EXPECT_EQ(check_.fault(), "");
    CallCoordinator(*first_, v1::HeartbeatRequest(), [](absl::StatusOr<v1::HeartbeatReply>) {});
    coordinator_.Of<v1::HeartbeatRequest>().Answer(error);
  }
  EXPECT_THAT(check_.fault(), StartsWith("orders of the latest term: "));
}

TEST_F(CoordinatorCheckTest, AnErrorForARequestThatCameEarlierIsNone) {
  CallCoordinator(*first_, v1::HeartbeatRequest(), [](absl::StatusOr<v1::HeartbeatReply>) {});
  BeginSecond(View(kTerm1 + 1));
  coordinator_.Of<v1::HeartbeatRequest>().Answer(absl::FailedPreconditionError("lost"));
  EXPECT_EQ(check_.fault(), "");
}

TEST_F(CoordinatorCheckTest, AViewThatWasToldBeforeItWasKeptIsFound) {
  Tell(*first_, View(kTerm1 + 2));
  BeginSecond(View(kTerm1 + 1));
  EXPECT_THAT(check_.fault(), StartsWith("kept before told: "));
}

TEST_F(CoordinatorCheckTest, AViewOfAnEarlierTermThatTheLaterOneHasNotReadIsFound) {
  BeginSecond(View(kTerm1 + 1));
  Tell(*first_, View(kTerm1 + 2));
  EXPECT_THAT(check_.fault(), StartsWith("kept before told: "));
}

TEST_F(CoordinatorCheckTest, AForgottenMemberIsFound) {
  Register(*first_, 7);
  v1::JobView view = View(kTerm1 + 1);
  view.add_servers()->set_incarnation(8);
  BeginSecond(view);
  EXPECT_THAT(check_.fault(), HasSubstr("process 7"));
}

TEST_F(CoordinatorCheckTest, AMemberOfAnEarlierTermIsFound) {
  BeginSecond(View(kTerm1 + 1));
  Register(*first_, 7);
  EXPECT_THAT(check_.fault(), HasSubstr("process 7"));
}

TEST_F(CoordinatorCheckTest, AForgottenPeriodIsFound) {
  v1::JobView view = View(kTerm1 + 1);
  view.add_consistency()->set_first_step(3);
  Tell(*first_, view);
  BeginSecond(view);
  Tell(*second_, View(kTerm2 + 1));
  EXPECT_THAT(check_.fault(), StartsWith("periods stay: "));
}

TEST_F(CoordinatorCheckTest, AForgottenEndIsFound) {
  v1::JobView view = View(kTerm1 + 1);
  view.set_phase(v1::DONE);
  Tell(*first_, view);
  BeginSecond(View(kTerm1 + 1));
  EXPECT_THAT(check_.fault(), HasSubstr("has told DONE"));
}

TEST_F(CoordinatorCheckTest, TwoEndsAreFound) {
  check_.NoteOutcome("");
  check_.NoteOutcome("lost");
  EXPECT_THAT(check_.fault(), StartsWith("one end: "));
}

}  // namespace
}  // namespace capstan
