// Workers that register with a rank, and workers of programs, which tell their steps at the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "common/base/fake_clock.h"
#include "server/coordinator/job_state.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWorkers = 3;

// The process of a rank has the incarnation 10 + rank.
class JobStateRankTest : public testing::Test {
 protected:
  JobStateRankTest() : state_(Job(), clock_) {}

  static v1::JobSpec Job() {
    v1::JobSpec job;
    job.mutable_cluster()->set_num_servers(1);
    job.mutable_cluster()->set_num_workers(kWorkers);
    job.mutable_model()->set_type(v1::ModelSpec::PROGRAM);
    return job;
  }
  static v1::RegisterWorkerRequest Request(uint32_t rank, uint64_t incarnation) {
    v1::RegisterWorkerRequest request;
    request.add_tables()->set_name("w");
    request.mutable_tables(0)->add_shape(4);
    request.set_may_enter_late(true);
    request.set_rank(rank);
    request.set_incarnation(incarnation);
    return request;
  }
  static v1::RegisterWorkerRequest Request(uint32_t rank) { return Request(rank, 10 + rank); }

  void StartTraining() {
    v1::RegisterServerRequest server;
    server.set_address("host:1");
    ASSERT_TRUE(state_.RegisterServer(server).ok());
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      ASSERT_EQ(state_.RegisterWorker(Request(rank)).value(), rank);
    }
    v1::HeartbeatRequest heartbeat;
    heartbeat.set_role(v1::HeartbeatRequest::SERVER);
    heartbeat.set_view_version(state_.view().version());
    ASSERT_TRUE(state_.Heartbeat(heartbeat).ok());
    ASSERT_EQ(state_.view().phase(), v1::TRAINING);
  }
  void Report(uint32_t worker, int64_t steps_done, int64_t steps_total) {
    v1::HeartbeatRequest heartbeat;
    heartbeat.set_role(v1::HeartbeatRequest::WORKER);
    heartbeat.set_id(worker);
    heartbeat.set_incarnation(10 + worker);
    heartbeat.mutable_progress()->set_steps_done(steps_done);
    heartbeat.mutable_progress()->set_steps_total(steps_total);
    ASSERT_TRUE(state_.Heartbeat(heartbeat).ok());
  }

  FakeClock clock_;
  JobState state_;
};

TEST_F(JobStateRankTest, ARankRegistersAfterAllSmallerOnes) {
  EXPECT_EQ(state_.RegistersBefore(Request(0)), std::nullopt);
  EXPECT_EQ(state_.RegistersBefore(Request(2)), 0u);
  EXPECT_EQ(state_.RegisterWorker(Request(0)).value(), 0u);
  EXPECT_EQ(state_.RegistersBefore(Request(2)), 1u);
  EXPECT_EQ(state_.RegisterWorker(Request(1)).value(), 1u);
  EXPECT_EQ(state_.RegistersBefore(Request(2)), std::nullopt);
  EXPECT_EQ(state_.RegisterWorker(Request(2)).value(), 2u);
}

TEST_F(JobStateRankTest, TheSameProcessMayAskAgain) {
  ASSERT_TRUE(state_.RegisterWorker(Request(0)).ok());
  EXPECT_EQ(state_.RegistersBefore(Request(0)), std::nullopt);
  EXPECT_EQ(state_.RegisterWorker(Request(0)).value(), 0u);
}

TEST_F(JobStateRankTest, NoTwoProcessesHaveOneRank) {
  ASSERT_TRUE(state_.RegisterWorker(Request(0)).ok());
  const absl::Status refused = state_.RegisterWorker(Request(0, /*incarnation=*/99)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has registered as worker 0"));
}

TEST_F(JobStateRankTest, ARankBeyondTheJobsWorkersIsRefused) {
  EXPECT_EQ(state_.RegistersBefore(Request(kWorkers)), std::nullopt);
  const absl::Status refused = state_.RegisterWorker(Request(kWorkers)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("expected 0 to 2"));
}

TEST_F(JobStateRankTest, AProcessTakesThePlaceOfItsOwnRankOnly) {
  StartTraining();
  state_.DeclareDead({v1::HeartbeatRequest::WORKER, 1});
  EXPECT_TRUE(absl::IsResourceExhausted(state_.RegisterWorker(Request(2, 50)).status()))
      << "worker 2 is live";
  EXPECT_EQ(state_.RegisterWorker(Request(1, 51)).value(), 1u);
}

TEST_F(JobStateRankTest, ViewsTellTheNumberOfStepsOnceAWorkerHasToldIt) {
  StartTraining();
  Report(0, /*steps_done=*/3, /*steps_total=*/0);
  EXPECT_EQ(state_.view().steps_total(), 0);
  const uint64_t version = state_.view().version();
  Report(1, /*steps_done=*/4, /*steps_total=*/4);
  EXPECT_EQ(state_.view().steps_total(), 4);
  EXPECT_GT(state_.view().version(), version);
  EXPECT_EQ(state_.view().phase(), v1::TRAINING);
}

TEST_F(JobStateRankTest, TheTrainingEndsWhenAllWorkersHaveToldTheSameNumberOfSteps) {
  StartTraining();
  for (uint32_t worker = 0; worker < kWorkers; ++worker) Report(worker, 4, 4);
  EXPECT_EQ(state_.view().phase(), v1::EVALUATING);
}

}  // namespace
}  // namespace capstan
