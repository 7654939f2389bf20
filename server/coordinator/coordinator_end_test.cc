#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_job.h"

// The end of a job, as the coordinator's owner hears of it.
namespace capstan {
namespace {

class CoordinatorEndTest : public ::testing::Test {
 protected:
  void Listen() {
    job_.coordinator().OnEnd([this](JobOutcome outcome) {
      ASSERT_FALSE(outcome_.has_value()) << "told twice";
      outcome_ = std::move(outcome);
    });
  }
  void TellEverybodyBut(MemberKey silent) {
    for (const MemberKey member : {Server(0), Server(1), Worker(0), Worker(1)}) {
      if (!(member == silent)) job_.Heartbeat(member, /*view_version=*/0);
    }
  }

  ScriptedJob job_;
  std::optional<JobOutcome> outcome_;
};

TEST_F(CoordinatorEndTest, IsReportedWhenEveryLiveMemberHasBeenTold) {
  Listen();
  job_.StartTraining();
  for (const MemberKey member : {Server(0), Server(1)}) {
    job_.Heartbeat(member, job_.View().version());  // Parked until the end.
  }
  job_.coordinator().Fail("interrupted");
  EXPECT_FALSE(outcome_.has_value());
  job_.Heartbeat(Worker(0), 0);
  EXPECT_FALSE(outcome_.has_value());
  job_.Heartbeat(Worker(1), 0);
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_EQ(outcome_->status, absl::AbortedError("interrupted"));
}

TEST_F(CoordinatorEndTest, DoesNotWaitForAMemberThatReportedTheFailure) {
  Listen();
  job_.StartTraining();
  ASSERT_TRUE(job_.ReportFailure(Worker(1), "out of memory").ok());
  TellEverybodyBut(Worker(1));
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_EQ(outcome_->status, absl::AbortedError("worker 1: out of memory"));
}

TEST_F(CoordinatorEndTest, WaitsForTheOtherProcessesOfLiveWorkers) {
  Listen();
  job_.StartTraining();
  const auto ask = [this](uint64_t version) {
    v1::HeartbeatRequest request;
    request.set_role(v1::HeartbeatRequest::WORKER);
    request.set_id(1);
    request.set_incarnation(ScriptedJob::IncarnationOf(Worker(1)));
    request.set_part(1);
    request.set_received_version(version);
    CallCoordinator(job_.coordinator(), request, [](const absl::StatusOr<v1::HeartbeatReply>&) {});
  };
  ask(job_.View().version());
  job_.PassTime(absl::Seconds(1), {});  // It is answered, and between two heartbeats.
  job_.coordinator().Fail("interrupted");
  for (const MemberKey member : {Server(0), Server(1), Worker(0), Worker(1)}) {
    job_.Heartbeat(member, /*view_version=*/0);
  }
  EXPECT_FALSE(outcome_.has_value());
  ask(0);
  EXPECT_TRUE(outcome_.has_value());
}

TEST_F(CoordinatorEndTest, IsReportedAfterALeaseWhenAMemberIsSilent) {
  Listen();
  job_.StartTraining();
  job_.coordinator().Fail("interrupted");
  TellEverybodyBut(Worker(1));
  job_.clock().Advance(absl::Milliseconds(9'999));
  EXPECT_FALSE(outcome_.has_value());
  job_.clock().Advance(absl::Milliseconds(1));
  EXPECT_TRUE(outcome_.has_value());
}

TEST_F(CoordinatorEndTest, IsReportedToWhoListensLate) {
  job_.coordinator().Fail("interrupted");
  Listen();
  EXPECT_TRUE(outcome_.has_value()) << "nobody had to be told";
}

TEST_F(CoordinatorEndTest, IsReportedAfterALeaseToWhoListensLate) {
  job_.StartTraining();
  job_.coordinator().Fail("interrupted");
  Listen();
  EXPECT_FALSE(outcome_.has_value());
  job_.clock().Advance(absl::Seconds(10));
  EXPECT_TRUE(outcome_.has_value());
}

TEST_F(CoordinatorEndTest, TellsTheResultTheTimeOfTrainingAndTheLosses) {
  Listen();
  job_.StartTraining();
  job_.FinishSteps(0);
  job_.PassTime(absl::Seconds(20), {Server(0), Server(1), Worker(0)});
  ASSERT_TRUE(job_.ReportResult(0, /*test_accuracy=*/0.75).ok());
  TellEverybodyBut(Worker(1));
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_TRUE(outcome_->status.ok()) << outcome_->status;
  EXPECT_EQ(outcome_->result.test_accuracy(), 0.75);
  EXPECT_EQ(outcome_->last_status.view().phase(), v1::DONE);
  EXPECT_EQ(outcome_->last_status.progress(0).samples(), 100u);
  EXPECT_EQ(outcome_->training_time, absl::Seconds(10)) << "until worker 1 was given up";
  EXPECT_EQ(outcome_->workers_lost, 1);
}

}  // namespace
}  // namespace capstan
