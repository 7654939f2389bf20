// Coordinators that are lost, and others that go on with their job.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/coordinator.h"
#include "server/coordinator/job_state.h"
#include "server/coordinator/saved_job.h"
#include "server/coordinator/scripted_job.h"
#include "server/coordinator/state/memory_state_folder.h"

namespace capstan {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;

v1::JobSpec JobWithCopies() {
  v1::JobSpec job = ScriptedJob::Job();
  job.mutable_cluster()->set_replicas(2);
  return job;
}

// The view without what each coordinator has of its own.
v1::JobView WithoutVersion(v1::JobView view) {
  view.clear_version();
  return view;
}

class CoordinatorReturnTest : public testing::Test {
 protected:
  explicit CoordinatorReturnTest(const v1::JobSpec& job = ScriptedJob::Job())
      : folder_(std::make_shared<MemoryStateFolder::Content>()), job_(job, nullptr, {}, folder_) {}

  // The views are the same, but for a larger version.
  void ReplaceAndCompare() {
    const v1::JobView before = job_.View();
    job_.ReplaceCoordinator();
    const v1::JobView after = job_.View();
    EXPECT_GT(after.version(), before.version());
    EXPECT_TRUE(MessageDifferencer::Equals(WithoutVersion(before), WithoutVersion(after)))
        << before.DebugString() << after.DebugString();
  }
  // Both servers act on the newest view.
  void BeatServers() {
    for (const uint32_t id : {0, 1}) job_.Heartbeat(Server(id), job_.View().version());
  }

  const std::shared_ptr<MemoryStateFolder::Content> folder_;
  ScriptedJob job_;
};

TEST_F(CoordinatorReturnTest, AJobGoesOnInEachPhase) {
  ASSERT_TRUE(job_.RegisterServer(100).ok());
  ASSERT_TRUE(job_.RegisterWorker(200).ok());
  ReplaceAndCompare();
  EXPECT_EQ(*job_.RegisterServer(100), 0u) << "it is a member";
  ASSERT_EQ(*job_.RegisterServer(101), 1u);
  ASSERT_EQ(*job_.RegisterWorker(201), 1u);
  EXPECT_EQ(job_.View().phase(), v1::PLACING);
  ReplaceAndCompare();
  BeatServers();
  EXPECT_EQ(job_.View().phase(), v1::TRAINING);
  ReplaceAndCompare();
  BeatServers();
  job_.FinishSteps(0);
  ReplaceAndCompare();
  BeatServers();
  EXPECT_EQ(job_.View().phase(), v1::TRAINING) << "it is not known what worker 0 has done";
  job_.FinishSteps(0);
  job_.FinishSteps(1);
  EXPECT_EQ(job_.View().phase(), v1::EVALUATING);
  ReplaceAndCompare();
  EXPECT_EQ(job_.ReportResult(0, 0.75), absl::OkStatus());
  EXPECT_EQ(job_.View().phase(), v1::DONE);
  ReplaceAndCompare();
}

TEST_F(CoordinatorReturnTest, ViewsOfALaterTermAreNewer) {
  job_.StartTraining();
  EXPECT_EQ(job_.View().version() >> 40, 1u);
  job_.ReplaceCoordinator();
  job_.ReplaceCoordinator();
  EXPECT_EQ(job_.View().version() >> 40, 3u);
}

TEST_F(CoordinatorReturnTest, ServersAreNotTakenToHaveActedOnViewsOfBefore) {
  job_.RegisterAll();
  const uint64_t before = job_.View().version();
  job_.ReplaceCoordinator();
  for (const uint32_t id : {0, 1}) job_.Heartbeat(Server(id), before);
  EXPECT_EQ(job_.View().phase(), v1::PLACING);
  BeatServers();
  EXPECT_EQ(job_.View().phase(), v1::TRAINING);
}

TEST_F(CoordinatorReturnTest, TheEndIsToldByTheNextCoordinator) {
  job_.StartTraining();
  v1::Progress progress;
  progress.set_steps_done(7);
  job_.Heartbeat(Worker(0), job_.View().version(), progress);
  job_.coordinator().Fail("the user has stopped it");
  job_.ReplaceCoordinator();
  std::optional<JobOutcome> outcome;
  job_.coordinator().OnEnd([&outcome](JobOutcome ended) { outcome = std::move(ended); });
  for (const MemberKey member : {Server(0), Server(1), Worker(0), Worker(1)}) {
    EXPECT_FALSE(outcome.has_value());
    const ScriptedJob::Beat beat = job_.Heartbeat(member, 1);
    ASSERT_TRUE(beat->has_value() && (*beat)->ok());
    EXPECT_EQ(ViewOf(***beat)->reason(), "the user has stopped it");
  }
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(absl::IsAborted(outcome->status)) << outcome->status;
  ASSERT_EQ(outcome->last_status.progress_size(), 2);
  EXPECT_EQ(outcome->last_status.progress(0).steps_done(), 7) << "its worker does not come again";
}

TEST_F(CoordinatorReturnTest, AJobThatIsOverIsNotGoneOnWith) {
  job_.StartTraining();
  job_.coordinator().Fail("the user has stopped it");
  ASSERT_EQ(job_.coordinator().FinishState(), absl::OkStatus());
  job_.ReplaceCoordinator();
  EXPECT_EQ(job_.View().phase(), v1::REGISTERING);
  EXPECT_EQ(job_.View().version() >> 40, 2u);
}

TEST_F(CoordinatorReturnTest, ACoordinatorWhoseJobWasTakenOverOrdersNothing) {
  job_.StartTraining();
  const v1::JobView view = job_.View();
  const std::unique_ptr<Coordinator> stopped = job_.ReplaceCoordinator();
  BeatServers();
  EXPECT_EQ(job_.lost(), absl::OkStatus());
  // All members have been silent to it.
  job_.PassTime(absl::Seconds(11), {Server(0), Server(1), Worker(0), Worker(1)});
  EXPECT_TRUE(absl::IsAborted(job_.lost())) << job_.lost();
  EXPECT_THAT(std::string(job_.lost().message()), HasSubstr("has taken over"));
  std::optional<absl::Status> answer;
  v1::HeartbeatRequest heartbeat;
  heartbeat.set_role(v1::HeartbeatRequest::SERVER);
  heartbeat.set_incarnation(100);
  heartbeat.set_view_version(view.version());
  CallCoordinator(*stopped, heartbeat, [&answer](const absl::StatusOr<v1::HeartbeatReply>& reply) {
    answer = reply.status();
  });
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*answer)) << *answer;
  EXPECT_EQ(job_.View().phase(), v1::TRAINING);
}

TEST_F(CoordinatorReturnTest, AnErrorOfACoordinatorWhoseJobWasTakenOverIsNotSaid) {
  job_.StartTraining();
  const std::unique_ptr<Coordinator> stopped = job_.ReplaceCoordinator();
  v1::HeartbeatRequest heartbeat;
  heartbeat.set_role(v1::HeartbeatRequest::SERVER);
  heartbeat.set_incarnation(100);
  heartbeat.set_view_version(job_.View().version());
  std::optional<absl::Status> answer;
  CallCoordinator(*stopped, heartbeat, [&answer](const absl::StatusOr<v1::HeartbeatReply>& reply) {
    answer = reply.status();
  });
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*answer)) << "a member would end: " << *answer;
}

TEST_F(CoordinatorReturnTest, APendingChangeOfConsistencyGoesOn) {
  job_.StartTraining();
  v1::SetConsistencyRequest request;
  request.mutable_change()->set_mode(v1::ConsistencySpec::ASYNC);
  CallCoordinator(job_.coordinator(), request,
                  [](const absl::StatusOr<v1::SetConsistencyReply>&) {});
  ReplaceAndCompare();
  const v1::JobView view = job_.View();
  ASSERT_EQ(view.consistency_change(), 1u);
  for (const uint32_t id : {0, 1}) {
    v1::HeartbeatRequest heartbeat;
    heartbeat.set_role(v1::HeartbeatRequest::SERVER);
    heartbeat.set_id(id);
    heartbeat.set_incarnation(ScriptedJob::IncarnationOf(Server(id)));
    heartbeat.set_view_version(view.version());
    heartbeat.mutable_held_step()->set_consistency_change(1);
    heartbeat.mutable_held_step()->set_step(4 + id);
    CallCoordinator(job_.coordinator(), heartbeat, [](const auto&) {});
  }
  ASSERT_EQ(job_.View().consistency_size(), 2);
  EXPECT_EQ(job_.View().consistency(1).first_step(), 5);
}

TEST_F(CoordinatorReturnTest, WhoDoesNotComeBackWithoutCopiesIsLostAfterItsLease) {
  job_.StartTraining();
  job_.ReplaceCoordinator();
  job_.PassTime(absl::Seconds(9), {Server(0), Worker(0), Worker(1)});
  EXPECT_EQ(job_.View().phase(), v1::TRAINING);
  job_.PassTime(absl::Seconds(2), {Server(0), Worker(0), Worker(1)});
  EXPECT_EQ(job_.View().phase(), v1::FAILED);
}

class CoordinatorReturnWithCopiesTest : public CoordinatorReturnTest {
 protected:
  CoordinatorReturnWithCopiesTest() : CoordinatorReturnTest(JobWithCopies()) {
    job_.StartTraining();
  }

  void MakeAllWhole() {
    const v1::JobView view = job_.View();
    for (const uint32_t id : {0, 1}) {
      v1::HeartbeatRequest heartbeat;
      heartbeat.set_role(v1::HeartbeatRequest::SERVER);
      heartbeat.set_id(id);
      heartbeat.set_incarnation(view.servers(static_cast<int>(id)).incarnation());
      heartbeat.set_view_version(view.version());
      for (int shard = 0; shard < view.copies_size(); ++shard) {
        v1::WholeCopy& whole = *heartbeat.mutable_copies()->add_whole();
        whole.set_shard(static_cast<uint32_t>(shard));
        whole.set_number(view.copies(shard).number());
      }
      CallCoordinator(job_.coordinator(), heartbeat, [](const auto&) {});
    }
  }
};

TEST_F(CoordinatorReturnTest, TheStatusSaysWhichCoordinatorItIsAndHowLongOneIsWaitedFor) {
  EXPECT_EQ(job_.Status().term(), 1u);
  EXPECT_EQ(job_.Status().coordinator_seconds(), 600);
  job_.ReplaceCoordinator();
  EXPECT_EQ(job_.Status().term(), 2u);
  EXPECT_EQ(ScriptedJob().Status().term(), 0u) << "it keeps no state";
  EXPECT_EQ(ScriptedJob().Status().coordinator_seconds(), 0);
}

TEST_F(CoordinatorReturnWithCopiesTest, CopiesStayWhole) {
  MakeAllWhole();
  EXPECT_TRUE(job_.View().copies(0).is_whole());
  ReplaceAndCompare();
}

TEST_F(CoordinatorReturnWithCopiesTest, AServerThatDiedMeanwhileIsLostSoonAfterTheReturn) {
  MakeAllWhole();
  const uint64_t epoch = job_.View().epoch();
  job_.ReplaceCoordinator();
  job_.PassTime(absl::Milliseconds(1200), {Server(1), Worker(0), Worker(1)});
  EXPECT_TRUE(job_.View().servers(0).is_live());
  job_.PassTime(absl::Milliseconds(200), {Server(1), Worker(0), Worker(1)});
  EXPECT_FALSE(job_.View().servers(0).is_live());
  EXPECT_EQ(job_.View().epoch(), epoch + 1);
  EXPECT_EQ(job_.View().phase(), v1::TRAINING);
  ReplaceAndCompare();
  EXPECT_EQ(job_.Status().servers_lost(), 1u);
  EXPECT_EQ(job_.Status().server_losses_size(), 1);
}

TEST_F(CoordinatorReturnWithCopiesTest, WhoWaitsForACoordinatorThatHangsHasTimeToMoveOn) {
  MakeAllWhole();
  job_.ReplaceCoordinator(/*checkpoints=*/nullptr, /*takes_over=*/true);
  job_.PassTime(absl::Milliseconds(15400), {Server(1), Worker(0), Worker(1)});
  EXPECT_TRUE(job_.View().servers(0).is_live()) << "a lease, and the longest try of a heartbeat";
  job_.PassTime(absl::Milliseconds(200), {Server(1), Worker(0), Worker(1)});
  EXPECT_FALSE(job_.View().servers(0).is_live());
}

TEST_F(CoordinatorReturnWithCopiesTest, NobodyIsLostWhileNobodyHasCome) {
  MakeAllWhole();
  job_.ReplaceCoordinator();
  job_.clock().Advance(absl::Seconds(5));
  EXPECT_TRUE(job_.View().servers(0).is_live());
}

// Whatever a job has come to, a state says all that its next coordinator needs: what that one would
// keep is the same.
TEST(StateRoundTripTest, ARestoredJobKeepsTheSameState) {
  FakeClock clock;
  v1::JobSpec spec = JobWithCopies();
  spec.mutable_membership()->set_replace_seconds(10);
  JobState job(spec, clock, {}, /*term=*/1);
  const auto compare = [&](const std::string& when) {
    const SavedJob saved = {job.State(), std::make_shared<const v1::JobConstants>(job.Constants())};
    ASSERT_EQ(CheckSavedJob(saved, spec), absl::OkStatus()) << when;
    JobState next(spec, clock, {}, /*term=*/2);
    next.GoOn(saved);
    v1::CoordinatorState kept = next.State();
    v1::CoordinatorState expected = saved.state;
    for (v1::CoordinatorState* state : {&kept, &expected}) {
      state->mutable_view()->clear_version();
      state->mutable_view()->clear_checkpoint();
    }
    EXPECT_TRUE(MessageDifferencer::Equals(kept, expected))
        << when << kept.DebugString() << expected.DebugString();
  };
  const auto beat = [&](MemberKey member, int64_t steps = 0) {
    v1::HeartbeatRequest heartbeat;
    heartbeat.set_role(member.role);
    heartbeat.set_id(member.id);
    heartbeat.set_incarnation(ScriptedJob::IncarnationOf(member));
    heartbeat.set_view_version(job.view().version());
    heartbeat.mutable_progress()->set_steps_done(steps);
    heartbeat.mutable_progress()->set_steps_total(100);
    for (int shard = 0; shard < job.view().copies_size(); ++shard) {
      v1::WholeCopy& whole = *heartbeat.mutable_copies()->add_whole();
      whole.set_shard(static_cast<uint32_t>(shard));
      whole.set_number(job.view().copies(shard).number());
    }
    ASSERT_EQ(job.Heartbeat(heartbeat), absl::OkStatus());
  };
  compare("at the beginning");
  for (const uint32_t id : {0, 1}) {
    v1::RegisterServerRequest server;
    server.set_incarnation(100 + id);
    server.set_address(absl::StrCat("host:", 4000 + id));
    server.set_host(absl::StrCat("host-", id));
    ASSERT_TRUE(job.RegisterServer(server).ok());
    compare("while it registers");
    v1::RegisterWorkerRequest worker;
    worker.set_incarnation(200 + id);
    worker.set_may_enter_late(true);
    worker.set_is_replaceable(true);
    *worker.add_tables() = ScriptedJob::Tables({64})[0];
    ASSERT_TRUE(job.RegisterWorker(worker).ok());
    compare("with another worker");
  }
  ASSERT_EQ(job.view().phase(), v1::PLACING);
  for (const MemberKey member : {Server(0), Server(1), Worker(0), Worker(1)}) beat(member, 3);
  ASSERT_EQ(job.view().phase(), v1::TRAINING);
  for (const uint32_t id : {0, 1}) beat(Server(id));
  compare("with whole copies");
  job.DeclareDead(Worker(1));
  ASSERT_TRUE(job.view().workers(1).holds_place());
  compare("with a held place");
  v1::RegisterWorkerRequest successor;
  successor.set_incarnation(300);
  successor.set_may_enter_late(true);
  successor.set_is_replaceable(true);
  *successor.add_tables() = ScriptedJob::Tables({64})[0];
  ASSERT_TRUE(job.RegisterWorker(successor).ok());
  ASSERT_TRUE(job.view().workers(1).is_entering());
  compare("with an entering worker");
  job.DeclareDead(Server(1), /*is_broken=*/true);
  ASSERT_EQ(job.view().phase(), v1::TRAINING) << job.view().reason();
  compare("without a server");
  job.Fail("enough");
  compare("at the end");
}

TEST(CheckSavedJobTest, TheStateOfAnotherJobIsRefused) {
  FakeClock clock;
  JobState job(ScriptedJob::Job(), clock);
  const SavedJob saved = {job.State(), std::make_shared<const v1::JobConstants>(job.Constants())};
  v1::JobSpec other = ScriptedJob::Job();
  other.mutable_training()->set_steps(77);
  const absl::Status refused = CheckSavedJob(saved, other);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("scripted"));
}

TEST(CheckSavedJobTest, AStateThatContradictsItselfIsRefused) {
  FakeClock clock;
  JobState job(ScriptedJob::Job(), clock);
  const auto constants = std::make_shared<const v1::JobConstants>(job.Constants());
  const auto refuses = [&](const v1::CoordinatorState& state) {
    return absl::IsInvalidArgument(CheckSavedJob({state, constants}, ScriptedJob::Job()));
  };
  v1::CoordinatorState state = job.State();
  state.mutable_view()->add_servers();
  EXPECT_TRUE(refuses(state)) << "a server of the view alone";
  state.add_servers();
  EXPECT_FALSE(refuses(state));
  state.mutable_view()->add_server_of_shard(0);
  EXPECT_TRUE(refuses(state)) << "a placed shard before the placement";
  state.mutable_view()->set_epoch(1);
  EXPECT_TRUE(refuses(state)) << "one shard of four, and no tables";
  state = job.State();
  state.mutable_view()->clear_consistency();
  EXPECT_TRUE(refuses(state));
  state = job.State();
  state.mutable_view()->clear_phase();
  EXPECT_TRUE(refuses(state));
}

}  // namespace
}  // namespace capstan
