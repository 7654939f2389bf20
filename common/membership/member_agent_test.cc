#include "common/membership/member_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/membership/retrying_coordinator.h"
#include "common/membership/scripted_coordinator.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MemberAgentTest : public ::testing::Test {
 protected:
  MemberAgentTest() {
    MemberAgent::Options options;
    options.role = v1::HeartbeatRequest::WORKER;
    options.id = 3;
    options.incarnation = Incarnation(42);
    options.on_view = [this](const v1::JobView& view) {
      views_.push_back(view.version());
      if (while_viewing_) while_viewing_();
    };
    options.on_lost = [this](const absl::Status& status) { lost_.push_back(status); };
    options.progress = [this] {
      v1::Progress progress;
      progress.set_steps_done(steps_done_);
      return progress;
    };
    options.report = [this](v1::HeartbeatRequest&) {
      if (while_reporting_) while_reporting_();
    };
    agent_ = std::make_unique<MemberAgent>(std::move(options), coordinator_, clock_);
  }

  // Answers the oldest open heartbeat after the usual time; returns it.
  v1::HeartbeatRequest Answer(uint64_t version, v1::Phase phase = v1::TRAINING) {
    clock_.Advance(absl::Milliseconds(500));
    return AnswerAtOnce(version, phase);
  }
  v1::HeartbeatRequest AnswerAtOnce(uint64_t version, v1::Phase phase = v1::TRAINING) {
    v1::JobView view;
    view.set_version(version);
    view.set_phase(phase);
    v1::HeartbeatReply reply;
    reply.set_view(view.SerializeAsString());
    return coordinator_.Of<v1::HeartbeatRequest>().Answer(reply);
  }
  size_t NumOpen() const { return coordinator_.Of<v1::HeartbeatRequest>().size(); }

  FakeClock clock_;
  ScriptedCoordinator coordinator_;
  std::vector<uint64_t> views_;
  std::vector<absl::Status> lost_;
  std::function<void()> while_viewing_;
  std::function<void()> while_reporting_;
  int64_t steps_done_ = 0;
  std::unique_ptr<MemberAgent> agent_;
};

TEST_F(MemberAgentTest, SaysWhoItIsAndHowFarItIs) {
  steps_done_ = 7;
  agent_->Start();
  ASSERT_EQ(NumOpen(), 1u);
  const v1::HeartbeatRequest request = Answer(1);
  EXPECT_EQ(request.role(), v1::HeartbeatRequest::WORKER);
  EXPECT_EQ(request.id(), 3u);
  EXPECT_EQ(request.incarnation(), 42u);
  EXPECT_EQ(request.view_version(), 0u);
  EXPECT_EQ(request.progress().steps_done(), 7);
}

TEST_F(MemberAgentTest, AViewThatCannotBeReadIsAnError) {
  agent_->Start();
  v1::HeartbeatReply reply;
  reply.set_view("no view");
  coordinator_.Of<v1::HeartbeatRequest>().Answer(reply);
  EXPECT_THAT(views_, IsEmpty());
  ASSERT_EQ(lost_.size(), 1u);
  EXPECT_THAT(std::string(lost_[0].message()), HasSubstr("got 7 other bytes"));
}

// A worker that leaves has done its last step: a heartbeat that says so has that step, too.
TEST_F(MemberAgentTest, TheProgressIsThatAfterTheReport) {
  while_reporting_ = [this] { steps_done_ = 7; };
  agent_->Start();
  EXPECT_EQ(Answer(1).progress().steps_done(), 7);
}

TEST_F(MemberAgentTest, SendsTheNextHeartbeatAsSoonAsTheLastWasAnswered) {
  agent_->Start();
  Answer(1);
  ASSERT_EQ(NumOpen(), 1u);
  EXPECT_EQ(Answer(1).view_version(), 1u);
  EXPECT_EQ(NumOpen(), 1u);
}

TEST_F(MemberAgentTest, SaysWhichViewItHasReceivedAlsoBeforeItHasActedOnIt) {
  uint64_t acted_on = 0;
  MemberAgent::Options options;
  options.on_view = [](const v1::JobView&) {};
  options.acted_on = [&acted_on] { return acted_on; };
  MemberAgent agent(std::move(options), coordinator_, clock_);
  agent.Start();
  Answer(7);
  coordinator_.Of<v1::HeartbeatRequest>().Answer(v1::HeartbeatReply());  // There is no newer view.
  clock_.Advance(absl::Milliseconds(500));
  acted_on = 7;
  const v1::HeartbeatRequest early = Answer(7);
  EXPECT_EQ(early.view_version(), 0u);
  EXPECT_EQ(early.received_version(), 7u);
  EXPECT_EQ(Answer(7).view_version(), 7u);
}

TEST_F(MemberAgentTest, HandsOnEachNewViewOnce) {
  agent_->Start();
  for (const uint64_t version : {1, 1, 3, 2, 3, 4}) Answer(version);
  EXPECT_THAT(views_, ElementsAre(1, 3, 4));
}

TEST_F(MemberAgentTest, SendsNothingBeforeItHasActedOnTheView) {
  agent_->Start();
  size_t open_while_viewing = 1;
  while_viewing_ = [&] {
    agent_->ReportNow();
    open_while_viewing = NumOpen();
  };
  Answer(1);
  EXPECT_EQ(open_while_viewing, 0u);
  ASSERT_EQ(NumOpen(), 1u);
  EXPECT_EQ(Answer(1).view_version(), 1u);
}

TEST_F(MemberAgentTest, ReportsAtOnceWhenAsked) {
  agent_->Start();
  steps_done_ = 9;
  agent_->ReportNow();
  ASSERT_EQ(NumOpen(), 2u);
  EXPECT_EQ(coordinator_.Of<v1::HeartbeatRequest>().back().first.progress().steps_done(), 9);
  Answer(1);  // The coordinator answers the older one.
  EXPECT_EQ(NumOpen(), 1u) << "one open heartbeat is enough";
}

TEST_F(MemberAgentTest, AViewOfALaterCoordinatorIsNewerThanAnyOfAnEarlierOne) {
  constexpr uint64_t kSecondTerm = uint64_t{2} << 40;
  agent_->Start();
  Answer((uint64_t{1} << 40) + 500);
  Answer(kSecondTerm);
  Answer((uint64_t{1} << 40) + 501);  // from the earlier one, which does not know that it is over
  EXPECT_EQ(Answer(kSecondTerm + 1).received_version(), kSecondTerm);
  EXPECT_THAT(views_, ElementsAre((uint64_t{1} << 40) + 500, kSecondTerm, kSecondTerm + 1));
}

TEST_F(MemberAgentTest, StopsAfterAFinalView) {
  agent_->Start();
  agent_->ReportNow();
  Answer(2, v1::FAILED);
  coordinator_.Of<v1::HeartbeatRequest>().Answer(absl::CancelledError("the coordinator has gone"));
  agent_->ReportNow();
  EXPECT_THAT(views_, ElementsAre(2));
  EXPECT_THAT(lost_, IsEmpty());
  EXPECT_EQ(NumOpen(), 0u);
}

TEST_F(MemberAgentTest, TellsOnceWhenTheCoordinatorRefusesIt) {
  agent_->Start();
  agent_->ReportNow();
  coordinator_.Of<v1::HeartbeatRequest>().Answer(absl::FailedPreconditionError("declared dead"));
  coordinator_.Of<v1::HeartbeatRequest>().Answer(absl::FailedPreconditionError("declared dead"));
  agent_->ReportNow();
  clock_.Advance(absl::Minutes(1));
  EXPECT_THAT(lost_, ElementsAre(absl::FailedPreconditionError("declared dead")));
  EXPECT_EQ(NumOpen(), 0u);
}

TEST_F(MemberAgentTest, WaitsTenMillisecondsWhenTheCoordinatorAnswersAtOnce) {
  agent_->Start();
  AnswerAtOnce(1);
  ASSERT_EQ(NumOpen(), 1u) << "news need no pause";
  AnswerAtOnce(1);
  EXPECT_EQ(NumOpen(), 0u);
  clock_.Advance(absl::Milliseconds(9));
  EXPECT_EQ(NumOpen(), 0u);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(NumOpen(), 1u);
}

TEST_F(MemberAgentTest, RunsNoCallbackAfterStop) {
  agent_->Start();
  agent_->Stop();
  Answer(1);
  agent_->ReportNow();
  EXPECT_THAT(views_, IsEmpty());
  EXPECT_EQ(NumOpen(), 0u);
}

TEST_F(MemberAgentTest, MayBeDestroyedWithAnOpenHeartbeat) {
  agent_->Start();
  agent_.reset();
  coordinator_.Of<v1::HeartbeatRequest>().Answer(absl::CancelledError("shutdown"));
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(MemberAgentTest, MayBeDestroyedByItsOwnCallback) {
  agent_->Start();
  while_viewing_ = [this] { agent_.reset(); };
  Answer(1);
  EXPECT_THAT(views_, ElementsAre(1));
  EXPECT_EQ(NumOpen(), 0u);
}

TEST_F(MemberAgentTest, MayBeDestroyedWhileItPauses) {
  agent_->Start();
  AnswerAtOnce(1);
  AnswerAtOnce(1);
  agent_.reset();
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(NumOpen(), 0u);
}

// With the connection that members have: a coordinator may be away, and another one come back.
class MemberOfAnyCoordinatorTest : public ::testing::Test {
 protected:
  MemberOfAnyCoordinatorTest() {
    auto inner = std::make_unique<ScriptedCoordinator>();
    scripted_ = inner.get();
    connection_ = std::make_unique<RetryingCoordinator>(RetryingCoordinator::Options(), clock_,
                                                        Random(/*seed=*/1), std::move(inner));
    CallCoordinator(*connection_, v1::GetJobRequest(), [](const auto&) {});
    v1::GetJobReply job;
    job.set_keeps_state(true);
    scripted_->Of<v1::GetJobRequest>().Answer(job);
    MemberAgent::Options options;
    options.role = v1::HeartbeatRequest::WORKER;
    options.on_view = [this](const v1::JobView& view) { views_.push_back(view.version()); };
    options.on_lost = [this](const absl::Status& status) { lost_.push_back(status); };
    agent_ = std::make_unique<MemberAgent>(std::move(options), *connection_, clock_);
    agent_->Start();
  }

  // The coordinator answers each try so, for this time.
  void AnswerAllFor(absl::Duration time, const absl::Status& status) {
    const absl::Time end = clock_.Now() + time;
    while (clock_.Now() < end) {
      auto& open = scripted_->Of<v1::HeartbeatRequest>();
      while (!open.empty()) open.Answer(status);
      clock_.Advance(absl::Milliseconds(100));
    }
  }
  void AnswerWithView(uint64_t version) {
    v1::JobView view;
    view.set_version(version);
    v1::HeartbeatReply reply;
    reply.set_view(view.SerializeAsString());
    scripted_->Of<v1::HeartbeatRequest>().Answer(reply);
  }
  void AwaitTry() {
    while (scripted_->Of<v1::HeartbeatRequest>().empty()) clock_.Advance(absl::Milliseconds(10));
  }

  FakeClock clock_;
  ScriptedCoordinator* scripted_;
  std::vector<uint64_t> views_;
  std::vector<absl::Status> lost_;
  std::unique_ptr<RetryingCoordinator> connection_;
  std::unique_ptr<MemberAgent> agent_;
};

TEST_F(MemberOfAnyCoordinatorTest, GoesOnWithTheNextCoordinatorAfterALongAbsence) {
  AnswerWithView(7);
  AnswerAllFor(absl::Seconds(500), absl::UnavailableError("connection refused"));
  AnswerAllFor(absl::Seconds(50), absl::UnavailableError("reads its state"));
  EXPECT_THAT(lost_, IsEmpty());
  AwaitTry();
  AnswerWithView(uint64_t{2} << 40);
  EXPECT_THAT(views_, ElementsAre(7, uint64_t{2} << 40));
}

TEST_F(MemberOfAnyCoordinatorTest, EndsIfTheNextOneDoesNotKnowIt) {
  AnswerWithView(7);
  AnswerAllFor(absl::Seconds(5), absl::UnavailableError("connection refused"));
  AwaitTry();
  scripted_->Of<v1::HeartbeatRequest>().Answer(
      absl::FailedPreconditionError("worker 0 has not registered"));
  EXPECT_THAT(lost_, ElementsAre(absl::FailedPreconditionError("worker 0 has not registered")));
}

TEST_F(MemberOfAnyCoordinatorTest, EndsIfNoneComesInTime) {
  AnswerAllFor(absl::Seconds(599), absl::UnavailableError("connection refused"));
  EXPECT_THAT(lost_, IsEmpty());
  AnswerAllFor(absl::Seconds(2), absl::UnavailableError("connection refused"));
  ASSERT_EQ(lost_.size(), 1u);
  EXPECT_EQ(lost_[0].code(), absl::StatusCode::kUnavailable);
}

TEST(MemberAgentActedOnTest, HeartbeatsGoOnWhileAnotherThreadActsOnTheView) {
  FakeClock clock;
  ScriptedCoordinator coordinator;
  uint64_t acted_on = 0;
  MemberAgent::Options options;
  options.role = v1::HeartbeatRequest::SERVER;
  options.on_view = [](const v1::JobView&) {};
  options.on_lost = [](const absl::Status&) {};
  options.acted_on = [&acted_on] { return acted_on; };
  MemberAgent agent(std::move(options), coordinator, clock);
  agent.Start();
  v1::JobView view;
  view.set_version(5);
  view.set_phase(v1::PLACING);
  v1::HeartbeatReply reply;
  reply.set_view(view.SerializeAsString());
  for (int i = 0; i < 3; ++i) {
    clock.Advance(absl::Milliseconds(500));
    EXPECT_EQ(coordinator.Of<v1::HeartbeatRequest>().Answer(reply).view_version(), 0u);
  }
  clock.Advance(absl::Milliseconds(10));
  EXPECT_EQ(coordinator.Of<v1::HeartbeatRequest>().Answer(reply).view_version(), 0u);
  acted_on = 5;
  agent.ReportNow();
  EXPECT_EQ(coordinator.Of<v1::HeartbeatRequest>().Answer(reply).view_version(), 0u)
      << "sent before";
  EXPECT_EQ(coordinator.Of<v1::HeartbeatRequest>().Answer(reply).view_version(), 5u);
}

TEST(MemberAgentOfServerTest, SaysWhereTheEnteringWorkersBegin) {
  FakeClock clock;
  ScriptedCoordinator coordinator;
  MemberAgent::Options options;
  options.role = v1::HeartbeatRequest::SERVER;
  options.on_view = [](const v1::JobView&) {};
  options.on_lost = [](const absl::Status&) {};
  options.report = [](v1::HeartbeatRequest& request) {
    v1::NextStep& next_step = *request.add_next_steps();
    next_step.set_worker(4);
    next_step.set_step(9);
  };
  MemberAgent agent(std::move(options), coordinator, clock);
  agent.Start();
  const v1::HeartbeatRequest request =
      coordinator.Of<v1::HeartbeatRequest>().Answer(absl::AbortedError("end"));
  ASSERT_EQ(request.next_steps_size(), 1);
  EXPECT_EQ(request.next_steps(0).worker(), 4);
  EXPECT_EQ(request.next_steps(0).step(), 9);
}

}  // namespace
}  // namespace capstan
