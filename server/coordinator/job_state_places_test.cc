// The places of lost workers, which are held for other processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "common/base/fake_clock.h"
#include "server/coordinator/job_state.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr MemberKey kServer{v1::HeartbeatRequest::SERVER, 0};

MemberKey Worker(uint32_t id) { return {v1::HeartbeatRequest::WORKER, id}; }

// Holds places for 20 s.
v1::JobSpec Job(bool allows_other_bits = true) {
  v1::JobSpec job;
  job.mutable_cluster()->set_num_servers(1);
  job.mutable_cluster()->set_num_workers(2);
  job.mutable_membership()->set_replace_seconds(20);
  job.mutable_membership()->set_allow_other_bits(allows_other_bits);
  return job;
}

v1::RegisterWorkerRequest Process(uint64_t incarnation) {
  v1::RegisterWorkerRequest request;
  request.add_tables()->set_name("w");
  request.mutable_tables(0)->add_shape(4);
  request.set_incarnation(incarnation);
  request.set_may_enter_late(true);
  request.set_is_replaceable(true);
  return request;
}

// A job of one server and two workers in training. A worker has 9 steps. The first processes have
// the incarnations 0 and 1.
class Training {
 public:
  explicit Training(const v1::JobSpec& job = Job(), bool are_replaceable = true)
      : state_(job, clock_) {
    v1::RegisterServerRequest server;
    server.set_address("host:1");
    EXPECT_TRUE(state_.RegisterServer(server).ok());
    for (const uint32_t id : {0, 1}) {
      v1::RegisterWorkerRequest worker = Process(/*incarnation=*/id);
      worker.set_is_replaceable(are_replaceable);
      EXPECT_EQ(state_.RegisterWorker(worker).value(), id);
    }
    TellServer();
    EXPECT_EQ(state_.view().phase(), v1::TRAINING);
  }

  JobState& state() { return state_; }
  FakeClock& clock() { return clock_; }
  const v1::WorkerInfo& Info(int worker) const { return state_.view().workers(worker); }

  void Report(uint32_t worker, int64_t steps_done, bool is_leaving = false) {
    v1::HeartbeatRequest heartbeat;
    heartbeat.set_role(v1::HeartbeatRequest::WORKER);
    heartbeat.set_id(worker);
    heartbeat.set_incarnation(Info(static_cast<int>(worker)).incarnation());
    heartbeat.mutable_progress()->set_steps_done(steps_done);
    heartbeat.mutable_progress()->set_steps_total(9);
    heartbeat.set_is_leaving(is_leaving);
    ASSERT_TRUE(state_.Heartbeat(heartbeat).ok());
  }
  // The server hears of the newest view, and says where entering workers begin.
  void TellServer(int64_t open_step = 0) {
    v1::HeartbeatRequest heartbeat;
    heartbeat.set_role(kServer.role);
    heartbeat.set_view_version(state_.view().version());
    for (const v1::WorkerInfo& worker : state_.view().workers()) {
      if (!worker.is_entering()) continue;
      v1::NextStep& next = *heartbeat.add_next_steps();
      next.set_worker(worker.worker());
      next.set_incarnation(worker.incarnation());
      next.set_step(open_step);
    }
    ASSERT_TRUE(state_.Heartbeat(heartbeat).ok());
  }
  void Pass(absl::Duration time) {
    clock_.Advance(time);
    state_.GiveUpPlaces();
  }
  std::string LatestEvent() { return state_.TakeEvents().back().text; }

 private:
  FakeClock clock_;
  JobState state_;
};

TEST(JobStatePlacesTest, ALostWorkersPlaceIsHeldAndTheViewSaysSo) {
  Training training;
  JobState& state = training.state();
  EXPECT_TRUE(state.view().holds_places());
  EXPECT_EQ(state.place_deadline(), absl::InfiniteFuture());
  training.Report(1, /*steps_done=*/4);
  const uint64_t version = state.view().version();
  state.DeclareDead(Worker(1));
  EXPECT_EQ(state.view().version(), version + 1);
  EXPECT_EQ(state.view().phase(), v1::TRAINING);
  EXPECT_FALSE(training.Info(1).is_live());
  EXPECT_TRUE(training.Info(1).holds_place());
  EXPECT_FALSE(training.Info(0).holds_place());
  EXPECT_EQ(state.place_deadline(), training.clock().Now() + absl::Seconds(20));
  EXPECT_EQ(training.LatestEvent(),
            "worker 1 has been silent for 10 s (lease); its place is held for 20 s "
            "(--replace_seconds)");
  EXPECT_FALSE(state.Outcome().has_other_bits);
  EXPECT_EQ(state.Outcome().workers_lost, 1);
}

TEST(JobStatePlacesTest, AnotherProcessDoesTheOpenStepAgainAndNothingIsHeldAnyMore) {
  Training training(Job(/*allows_other_bits=*/false));
  JobState& state = training.state();
  training.Report(1, /*steps_done=*/4);
  state.DeclareDead(Worker(1));
  training.Pass(absl::Seconds(2));
  ASSERT_EQ(state.RegisterWorker(Process(50)).value(), 1u);
  EXPECT_EQ(state.place_deadline(), absl::InfiniteFuture());
  EXPECT_TRUE(training.Info(1).is_live() && training.Info(1).is_entering());
  EXPECT_TRUE(training.Info(1).holds_place()) << "servers are to say which step is open";
  training.Pass(absl::Minutes(1));
  training.TellServer(/*open_step=*/4);
  EXPECT_FALSE(training.Info(1).is_entering() || training.Info(1).holds_place());
  EXPECT_EQ(training.Info(1).first_step(), 4);
  EXPECT_THAT(training.LatestEvent(), HasSubstr("was lost at step 4 and replaced after 62.0 s"));
  for (const uint32_t worker : {0, 1}) training.Report(worker, /*steps_done=*/9);
  EXPECT_EQ(state.view().phase(), v1::EVALUATING);
  EXPECT_FALSE(state.Outcome().has_other_bits);
}

TEST(JobStatePlacesTest, TheConsistencyIsNotChangedWhileAPlaceIsHeld) {
  Training training;
  v1::SetConsistencyRequest change;
  change.mutable_change()->set_mode(v1::ConsistencySpec::ASYNC);
  training.state().DeclareDead(Worker(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(training.state().BeginConsistencyChange(change).status()));
  ASSERT_TRUE(training.state().RegisterWorker(Process(/*incarnation=*/7)).ok());
  training.TellServer();
  EXPECT_TRUE(training.state().BeginConsistencyChange(change).ok());
}

TEST(JobStatePlacesTest, WhenTheTimeIsOverTheOthersGoOnAsWithoutAPlace) {
  Training training;
  JobState& state = training.state();
  state.DeclareDead(Worker(1));
  training.Pass(absl::Milliseconds(19'999));
  EXPECT_TRUE(training.Info(1).holds_place());
  const uint64_t version = state.view().version();
  training.Pass(absl::Milliseconds(1));
  EXPECT_EQ(state.view().version(), version + 1);
  EXPECT_FALSE(training.Info(1).holds_place());
  EXPECT_EQ(state.place_deadline(), absl::InfiniteFuture());
  EXPECT_EQ(training.LatestEvent(),
            "worker 1 has been silent for 10 s (lease); nobody has taken its place in 20 s "
            "(--replace_seconds); the others go on");
  EXPECT_TRUE(state.Outcome().has_other_bits);
  training.Report(0, /*steps_done=*/9);
  EXPECT_EQ(state.view().phase(), v1::TRAINING) << "the server still waits for worker 1";
  training.TellServer();
  EXPECT_EQ(state.view().phase(), v1::EVALUATING);
}

TEST(JobStatePlacesTest, AJobThatMayNotHaveOtherBitsFailsWhenTheTimeIsOver) {
  Training training(Job(/*allows_other_bits=*/false));
  training.state().DeclareDead(Worker(1));
  training.Pass(absl::Seconds(20));
  EXPECT_EQ(training.state().view().phase(), v1::FAILED);
  EXPECT_EQ(training.state().view().reason(),
            "worker 1 has been silent for 10 s (lease); nobody has taken its place in 20 s "
            "(--replace_seconds); under bsp the others could go on with other bits only "
            "(--allow_other_bits)");
}

TEST(JobStatePlacesTest, ThePlaceOfTheLastWorkerIsHeldToo) {
  for (const bool comes : {false, true}) {
    Training training;
    training.state().DeclareDead(Worker(0));
    training.Pass(absl::Seconds(5));
    training.state().DeclareDead(Worker(1));
    EXPECT_EQ(training.state().view().phase(), v1::TRAINING);
    training.Pass(absl::Seconds(15));
    EXPECT_FALSE(training.Info(0).holds_place());
    EXPECT_EQ(training.state().view().phase(), v1::TRAINING) << "worker 1 may still be replaced";
    if (comes) {
      ASSERT_EQ(training.state().RegisterWorker(Process(50)).value(), 1u) << "the held one first";
    }
    training.Pass(absl::Seconds(5));
    EXPECT_EQ(training.state().view().phase(), comes ? v1::TRAINING : v1::FAILED);
    if (!comes) {
      EXPECT_THAT(training.state().view().reason(), HasSubstr("was the last live worker"));
    }
  }
}

TEST(JobStatePlacesTest, TwoAreReplacedAtOnce) {
  Training training(Job(/*allows_other_bits=*/false));
  JobState& state = training.state();
  for (const uint32_t worker : {0, 1}) state.DeclareDead(Worker(worker));
  for (const uint64_t incarnation : {50, 51}) {
    ASSERT_EQ(state.RegisterWorker(Process(incarnation)).value(), incarnation - 50);
  }
  training.TellServer(/*open_step=*/3);
  for (const int worker : {0, 1}) {
    EXPECT_FALSE(training.Info(worker).is_entering() || training.Info(worker).holds_place());
    EXPECT_EQ(training.Info(worker).first_step(), 3);
  }
  EXPECT_EQ(state.Outcome().workers_lost, 2);
  EXPECT_FALSE(state.Outcome().has_other_bits);
}

TEST(JobStatePlacesTest, AProcessThatIsLostBeforeItHasEnteredLeavesThePlaceHeld) {
  Training training(Job(/*allows_other_bits=*/false));
  JobState& state = training.state();
  state.DeclareDead(Worker(1));
  ASSERT_TRUE(state.RegisterWorker(Process(50)).ok());
  state.DeclareDead(Worker(1));
  EXPECT_TRUE(training.Info(1).holds_place());
  EXPECT_FALSE(training.Info(1).is_entering());
  EXPECT_EQ(state.place_deadline(), training.clock().Now() + absl::Seconds(20));
  EXPECT_EQ(state.RegisterWorker(Process(51)).value(), 1u);
}

TEST(JobStatePlacesTest, AWorkerThatWasAskedToEndLeavesAHeldPlace) {
  Training training;
  training.Report(1, /*steps_done=*/4, /*is_leaving=*/true);
  EXPECT_TRUE(training.Info(1).holds_place());
  EXPECT_EQ(training.LatestEvent(),
            "worker 1 was asked to end, and has left; its place is held for 20 s "
            "(--replace_seconds)");
}

TEST(JobStatePlacesTest, AWorkerThatHadDoneItsStepsIsNotReplacedAndChangesNoBits) {
  Training training(Job(/*allows_other_bits=*/false));
  JobState& state = training.state();
  training.Report(1, /*steps_done=*/9);
  state.DeclareDead(Worker(1));
  EXPECT_EQ(state.view().phase(), v1::TRAINING);
  EXPECT_FALSE(training.Info(1).holds_place());
  EXPECT_THAT(training.LatestEvent(), HasSubstr("; the others go on"));
  training.TellServer();
  training.Report(0, /*steps_done=*/9);
  EXPECT_EQ(state.view().phase(), v1::EVALUATING);
  EXPECT_EQ(state.view().evaluator(), 0u);
  EXPECT_FALSE(state.Outcome().has_other_bits);
}

TEST(JobStatePlacesTest, NobodyEvaluatesBeforeAHeldPlaceHasAWorkerAgain) {
  Training training(Job(/*allows_other_bits=*/false));
  JobState& state = training.state();
  training.Report(1, /*steps_done=*/8);
  state.DeclareDead(Worker(1));
  training.Report(0, /*steps_done=*/9);
  training.TellServer();
  EXPECT_EQ(state.view().phase(), v1::TRAINING);
  state.DeclareDead(Worker(0));
  training.TellServer();
  EXPECT_EQ(state.view().phase(), v1::TRAINING) << state.view().reason();
  ASSERT_EQ(state.RegisterWorker(Process(50)).value(), 1u) << "the one whose place is held";
  training.TellServer(/*open_step=*/8);
  training.Report(1, /*steps_done=*/9);
  EXPECT_EQ(state.view().phase(), v1::EVALUATING);
  EXPECT_EQ(state.view().evaluator(), 1u);
}

TEST(JobStatePlacesTest, ALossSaysWhyNoPlaceIsHeldIfItsStepIsOpen) {
  constexpr char kRefusal[] = "no other process could do its step again: a program did not say";
  Training failing(Job(/*allows_other_bits=*/false), /*are_replaceable=*/false);
  EXPECT_FALSE(failing.state().view().holds_places());
  failing.state().DeclareDead(Worker(1));
  EXPECT_THAT(failing.state().view().reason(),
              AllOf(HasSubstr(kRefusal), HasSubstr("(--allow_other_bits)")));

  Training done(Job(), /*are_replaceable=*/false);
  done.Report(1, /*steps_done=*/9);
  done.state().DeclareDead(Worker(1));
  EXPECT_THAT(done.LatestEvent(), Not(HasSubstr(kRefusal)));

  Training evaluating(Job(), /*are_replaceable=*/false);
  for (const uint32_t worker : {0, 1}) evaluating.Report(worker, /*steps_done=*/9);
  ASSERT_EQ(evaluating.state().view().phase(), v1::EVALUATING);
  evaluating.state().DeclareDead(Worker(0));
  EXPECT_EQ(evaluating.state().view().evaluator(), 1u);
  EXPECT_THAT(evaluating.LatestEvent(), Not(HasSubstr(kRefusal)));
}

}  // namespace
}  // namespace capstan
