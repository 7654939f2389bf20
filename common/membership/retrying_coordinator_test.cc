#include "common/membership/retrying_coordinator.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/membership/scripted_coordinator.h"

namespace capstan {
namespace {

class RetryingCoordinatorTest : public ::testing::Test {
 protected:
  RetryingCoordinatorTest() { Make({}); }

  // Another one takes its place.
  void Make(RetryingCoordinator::Options options) {
    auto inner = std::make_unique<ScriptedCoordinator>();
    inner_ = inner.get();
    options.address = "127.0.0.1:4000";
    options.absence = &absence_;
    coordinator_ = std::make_unique<RetryingCoordinator>(std::move(options), clock_,
                                                         Random(/*seed=*/1), std::move(inner));
  }

  // The coordinator tells that it keeps its state.
  void GetJobWithState(double coordinator_seconds) {
    CallCoordinator(*coordinator_, v1::GetJobRequest(),
                    [](const absl::StatusOr<v1::GetJobReply>&) {});
    v1::GetJobReply reply;
    reply.set_keeps_state(true);
    reply.mutable_job()->mutable_membership()->set_coordinator_seconds(coordinator_seconds);
    inner_->Of<v1::GetJobRequest>().Answer(reply);
  }

  void Register(uint64_t incarnation) {
    v1::RegisterServerRequest request;
    request.set_incarnation(incarnation);
    CallCoordinator(*coordinator_, request, [this](absl::StatusOr<v1::RegisterReply> reply) {
      ASSERT_FALSE(answer_.has_value()) << "answered twice";
      answer_ = std::move(reply);
    });
  }
  void FailOnce() {
    inner_->Of<v1::RegisterServerRequest>().Answer(absl::UnavailableError("connection refused"));
  }
  // Refuses each try until the call is given up, and returns after what time that was.
  absl::Duration FailUntilGivenUp() {
    const absl::Time start = clock_.Now();
    while (!answer_.has_value() && clock_.Now() < start + absl::Hours(1)) {
      if (IsOpen()) FailOnce();
      clock_.Advance(absl::Milliseconds(10));
    }
    return clock_.Now() - start;
  }
  bool IsOpen() const { return !inner_->Of<v1::RegisterServerRequest>().empty(); }

  FakeClock clock_;
  CoordinatorAbsence absence_{&clock_};
  ScriptedCoordinator* inner_;
  std::unique_ptr<RetryingCoordinator> coordinator_;
  std::optional<absl::StatusOr<v1::RegisterReply>> answer_;
};

TEST_F(RetryingCoordinatorTest, PassesAnswersOn) {
  Register(1);
  v1::RegisterReply reply;
  reply.set_id(3);
  inner_->Of<v1::RegisterServerRequest>().Answer(reply);
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->value().id(), 3u);
}

TEST_F(RetryingCoordinatorTest, PassesOtherErrorsOn) {
  Register(1);
  inner_->Of<v1::RegisterServerRequest>().Answer(absl::InvalidArgumentError("bad"));
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->status(), absl::InvalidArgumentError("bad"));
}

TEST_F(RetryingCoordinatorTest, MakesTheSameCallAgainAfterAPause) {
  Register(/*incarnation=*/42);
  FailOnce();
  EXPECT_FALSE(IsOpen());
  clock_.Advance(absl::Milliseconds(50));
  ASSERT_TRUE(IsOpen());
  EXPECT_EQ(inner_->Of<v1::RegisterServerRequest>().Answer(v1::RegisterReply()).incarnation(), 42u);
  EXPECT_TRUE(answer_.has_value());
}

TEST_F(RetryingCoordinatorTest, PausesDoubleUpToAQuarterSecondLessAJitterOfAHalf) {
  Register(1);
  for (const int backoff_ms : {50, 100, 200, 250, 250}) {
    FailOnce();
    clock_.Advance(absl::Milliseconds(backoff_ms) / 2 - absl::Nanoseconds(1));
    EXPECT_FALSE(IsOpen()) << backoff_ms;
    clock_.Advance(absl::Milliseconds(backoff_ms) / 2 + absl::Nanoseconds(1));
    ASSERT_TRUE(IsOpen()) << backoff_ms;
  }
}

TEST_F(RetryingCoordinatorTest, GivesUpAtTheDeadlineAndSaysWhatToDo) {
  const absl::Time start = clock_.Now();
  Register(1);
  while (!answer_.has_value()) {
    if (IsOpen()) FailOnce();
    clock_.Advance(absl::Milliseconds(1));
    ASSERT_LE(clock_.Now() - start, absl::Seconds(31));
  }
  EXPECT_GE(clock_.Now() - start, absl::Seconds(30));
  EXPECT_EQ(
      answer_->status(),
      absl::UnavailableError("coordinator 127.0.0.1:4000 has been unreachable for 30 s; "
                             "check that it runs and that --coordinator is right. Last error: "
                             "connection refused"));
}

TEST_F(RetryingCoordinatorTest, WaitsLongerForTheFirstAnswerThanForLaterOnes) {
  RetryingCoordinator::Options options;
  options.first_deadline = absl::Seconds(100);
  Make(options);
  Register(1);
  FailOnce();
  clock_.Advance(absl::Seconds(99));
  EXPECT_FALSE(answer_.has_value());
  ASSERT_TRUE(IsOpen());
  inner_->Of<v1::RegisterServerRequest>().Answer(v1::RegisterReply());
  answer_.reset();
  Register(2);
  FailOnce();
  clock_.Advance(absl::Seconds(30));
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RetryingCoordinatorTest, CountsTheDeadlineFromTheFirstFailure) {
  std::optional<absl::StatusOr<v1::HeartbeatReply>> answer;
  CallCoordinator(*coordinator_, v1::HeartbeatRequest(),
                  [&answer](auto reply) { answer = std::move(reply); });
  clock_.Advance(absl::Milliseconds(400));  // Parked, as heartbeats are for half a second.
  inner_->Of<v1::HeartbeatRequest>().Answer(absl::UnavailableError("connection refused"));
  clock_.Advance(absl::Milliseconds(50));
  ASSERT_FALSE(inner_->Of<v1::HeartbeatRequest>().empty());
  clock_.Advance(absl::Milliseconds(29'949));
  EXPECT_FALSE(answer.has_value());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(answer.has_value());
}

TEST_F(RetryingCoordinatorTest, CountsTheDeadlineOfATryThatHangsFromWhenItsAnswerWasDue) {
  Register(1);
  clock_.Advance(absl::Seconds(20));
  FailOnce();
  clock_.Advance(absl::Milliseconds(50));
  ASSERT_TRUE(IsOpen());
  clock_.Advance(absl::Milliseconds(9'949));
  EXPECT_FALSE(answer_.has_value());
  clock_.Advance(absl::Milliseconds(1));
  ASSERT_TRUE(answer_.has_value()) << "although the second try hangs";
  EXPECT_EQ(answer_->status().code(), absl::StatusCode::kUnavailable);
  inner_->Of<v1::RegisterServerRequest>().Answer(v1::RegisterReply());  // must not be passed on
}

TEST_F(RetryingCoordinatorTest, ACoordinatorThatWasGivenUpIsTriedOnce) {
  Register(1);
  clock_.Advance(absl::Seconds(31));
  FailOnce();
  ASSERT_TRUE(answer_.has_value());
  answer_.reset();
  Register(2);
  FailOnce();
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RetryingCoordinatorTest, ACoordinatorThatIsBackIsTriedAgain) {
  Register(1);
  clock_.Advance(absl::Seconds(31));
  FailOnce();
  answer_.reset();
  Register(2);
  inner_->Of<v1::RegisterServerRequest>().Answer(v1::RegisterReply());
  answer_.reset();
  Register(3);
  FailOnce();
  EXPECT_FALSE(answer_.has_value());
  clock_.Advance(absl::Milliseconds(50));
  EXPECT_TRUE(IsOpen());
}

TEST_F(RetryingCoordinatorTest, ACallThatWasAnsweredInTimeIsNotGivenUpLater) {
  Register(1);
  FailOnce();
  clock_.Advance(absl::Milliseconds(50));
  inner_->Of<v1::RegisterServerRequest>().Answer(v1::RegisterReply());
  EXPECT_TRUE(answer_->ok()) << answer_->status();
  answer_.reset();
  clock_.Advance(absl::Seconds(31));
  Register(2);
  FailOnce();
  EXPECT_FALSE(answer_.has_value()) << "it is the first failure since";
  clock_.Advance(absl::Milliseconds(50));
  EXPECT_TRUE(IsOpen());
}

TEST_F(RetryingCoordinatorTest, ACoordinatorThatKeepsItsStateHasLongerAndTheErrorNamesTheFlag) {
  GetJobWithState(/*coordinator_seconds=*/100);
  Register(1);
  EXPECT_EQ(FailUntilGivenUp(), absl::Seconds(100));
  EXPECT_EQ(
      answer_->status(),
      absl::UnavailableError(
          "coordinator 127.0.0.1:4000 has been unreachable for 100 s (--coordinator_seconds); "
          "check that it or another one runs and that --coordinator is right. Last error: "
          "connection refused"));
}

TEST_F(RetryingCoordinatorTest, ThatTimeIsNeverShorterThanTheJobsDeadlineForPeers) {
  GetJobWithState(/*coordinator_seconds=*/10);
  Register(1);
  EXPECT_EQ(FailUntilGivenUp(), absl::Seconds(30));
}

TEST_F(RetryingCoordinatorTest, ACommandDoesNotWaitForAnotherCoordinator) {
  RetryingCoordinator::Options options;
  options.rpc_deadline = absl::Seconds(2);
  options.is_member = false;
  Make(options);
  GetJobWithState(/*coordinator_seconds=*/100);
  Register(1);
  EXPECT_EQ(FailUntilGivenUp(), absl::Seconds(2));
  EXPECT_EQ(answer_->status().message().find("coordinator_seconds"), std::string::npos);
}

TEST_F(RetryingCoordinatorTest, WhatWaitsForItsReturnIsAnsweredThen) {
  GetJobWithState(/*coordinator_seconds=*/600);
  Register(1);
  FailOnce();
  for (int i = 0; i < 590 * 4; ++i) {
    clock_.Advance(absl::Milliseconds(250));
    ASSERT_TRUE(IsOpen()) << "the pauses are too long";
    if (i < 590 * 4 - 1) FailOnce();
  }
  EXPECT_FALSE(answer_.has_value());
  inner_->Of<v1::RegisterServerRequest>().Answer(v1::RegisterReply());
  EXPECT_TRUE(answer_->ok()) << answer_->status();
}

TEST_F(RetryingCoordinatorTest, AProcessThatIsToEndGivesUpSoon) {
  bool is_ending = false;
  RetryingCoordinator::Options options;
  options.is_ending = [&is_ending] { return is_ending; };
  Make(options);
  GetJobWithState(/*coordinator_seconds=*/600);
  Register(1);
  FailOnce();
  for (int i = 0; i < 400; ++i) {
    clock_.Advance(absl::Milliseconds(250));
    FailOnce();
  }
  ASSERT_FALSE(answer_.has_value());
  is_ending = true;
  EXPECT_LE(FailUntilGivenUp(), RetryingCoordinator::kEndPatience + absl::Milliseconds(300));
  EXPECT_NE(answer_->status().message().find("has been unreachable for 103"), std::string::npos);
  EXPECT_NE(answer_->status().message().find("s, and this process ends without it. Last"),
            std::string::npos)
      << answer_->status();
  answer_.reset();
  while (IsOpen()) FailOnce();
  Register(2);
  FailOnce();
  EXPECT_TRUE(answer_.has_value()) << "its last calls are tried once";
}

TEST_F(RetryingCoordinatorTest, AProcessThatIsToEndHasThatTimeAtEachAbsence) {
  RetryingCoordinator::Options options;
  options.is_ending = [] { return true; };
  Make(options);
  for (uint64_t incarnation : {1, 2}) {
    Register(incarnation);
    FailOnce();
    clock_.Advance(absl::Seconds(2));
    ASSERT_TRUE(IsOpen());
    inner_->Of<v1::RegisterServerRequest>().Answer(v1::RegisterReply());
    EXPECT_TRUE(answer_->ok()) << answer_->status();
    answer_.reset();
    clock_.Advance(absl::Seconds(20));
  }
}

TEST_F(RetryingCoordinatorTest, AProcessThatIsToEndStaysWhileTheCoordinatorHoldsItsHeartbeat) {
  bool is_ending = false;
  RetryingCoordinator::Options options;
  options.is_ending = [&is_ending] { return is_ending; };
  Make(options);
  v1::GetJobReply job;
  job.mutable_job()->mutable_membership()->set_heartbeat_seconds(10);
  CallCoordinator(*coordinator_, v1::GetJobRequest(),
                  [](const absl::StatusOr<v1::GetJobReply>&) {});
  inner_->Of<v1::GetJobRequest>().Answer(job);
  std::optional<absl::StatusOr<v1::HeartbeatReply>> answer;
  CallCoordinator(*coordinator_, v1::HeartbeatRequest(),
                  [&answer](auto reply) { answer = std::move(reply); });
  inner_->Of<v1::HeartbeatRequest>().Answer(absl::UnavailableError("connection reset"));
  clock_.Advance(absl::Milliseconds(50));
  is_ending = true;
  clock_.Advance(absl::Milliseconds(9'900));
  EXPECT_FALSE(answer.has_value());
  inner_->Of<v1::HeartbeatRequest>().Answer(v1::HeartbeatReply());
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->ok()) << answer->status();
}

TEST_F(RetryingCoordinatorTest, AParkedHeartbeatIsNoAbsenceAndAnErrorOfTheCoordinatorEndsOne) {
  std::optional<absl::StatusOr<v1::HeartbeatReply>> answer;
  CallCoordinator(*coordinator_, v1::HeartbeatRequest(),
                  [&answer](auto reply) { answer = std::move(reply); });
  clock_.Advance(absl::Milliseconds(500));
  EXPECT_EQ(absence_.away(), absl::ZeroDuration());
  clock_.Advance(absl::Seconds(5));
  inner_->Of<v1::HeartbeatRequest>().Answer(absl::UnavailableError("did not answer in time"));
  EXPECT_EQ(absence_.away(), absl::Seconds(5)) << "it was due after half a second";
  clock_.Advance(absl::Milliseconds(50));
  EXPECT_EQ(absence_.away(), absl::Milliseconds(5'050));
  inner_->Of<v1::HeartbeatRequest>().Answer(absl::FailedPreconditionError("declared dead"));
  EXPECT_EQ(absence_.away(), absl::ZeroDuration());
}

TEST_F(RetryingCoordinatorTest, RetriesEveryKindOfCall) {
  std::vector<absl::Status> answers;
  const auto count = [&](const auto& reply) { answers.push_back(reply.status()); };
  CallCoordinator(*coordinator_, v1::GetJobRequest(), count);
  CallCoordinator(*coordinator_, v1::RegisterWorkerRequest(), count);
  CallCoordinator(*coordinator_, v1::HeartbeatRequest(), count);
  CallCoordinator(*coordinator_, v1::ReportFailureRequest(), count);
  CallCoordinator(*coordinator_, v1::ReportResultRequest(), count);
  CallCoordinator(*coordinator_, v1::GetStatusRequest(), count);
  CallCoordinator(*coordinator_, v1::ReadClockRequest(), count);
  const auto answer_all = [this](const auto& answer_with) {
    inner_->Of<v1::GetJobRequest>().Answer(answer_with(v1::GetJobReply()));
    inner_->Of<v1::RegisterWorkerRequest>().Answer(answer_with(v1::RegisterReply()));
    inner_->Of<v1::HeartbeatRequest>().Answer(answer_with(v1::HeartbeatReply()));
    inner_->Of<v1::ReportFailureRequest>().Answer(answer_with(v1::ReportFailureReply()));
    inner_->Of<v1::ReportResultRequest>().Answer(answer_with(v1::ReportResultReply()));
    inner_->Of<v1::GetStatusRequest>().Answer(answer_with(v1::GetStatusReply()));
    inner_->Of<v1::ReadClockRequest>().Answer(answer_with(v1::ReadClockReply()));
  };
  answer_all(
      [](auto reply) -> absl::StatusOr<decltype(reply)> { return absl::UnavailableError("gone"); });
  EXPECT_TRUE(answers.empty());
  clock_.Advance(absl::Seconds(1));
  answer_all([](auto reply) -> absl::StatusOr<decltype(reply)> { return reply; });
  EXPECT_EQ(answers, std::vector<absl::Status>(7, absl::OkStatus()));
}

TEST_F(RetryingCoordinatorTest, CancelsWhatWaitsWhenItIsDestroyed) {
  Register(1);
  FailOnce();
  coordinator_.reset();
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->status().code(), absl::StatusCode::kCancelled);
  clock_.Advance(absl::Minutes(1));
}

}  // namespace
}  // namespace capstan
