// A job that stays: its workers leave after a round of steps, and others come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "server/coordinator/scripted_checkpoints.h"
#include "server/coordinator/scripted_job.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Rounds of 100 steps.
class StayingJobTest : public ScriptedCheckpoints {
 protected:
  static v1::JobSpec Staying(uint64_t checkpoint_steps = 0) {
    v1::JobSpec job = Job(checkpoint_steps);
    job.set_stay(true);
    return job;
  }
  // From worker `id`, that of RegisterAll unless another incarnation is given.
  static absl::Status Beat(ScriptedJob& job, uint32_t id, int64_t steps_done, int64_t steps_total,
                           bool is_leaving, std::optional<uint64_t> incarnation = {}) {
    v1::HeartbeatRequest request;
    request.set_role(v1::HeartbeatRequest::WORKER);
    request.set_id(id);
    request.set_incarnation(incarnation.value_or(ScriptedJob::IncarnationOf(Worker(id))));
    request.set_view_version(job.View().version());
    request.mutable_progress()->set_steps_done(steps_done);
    request.mutable_progress()->set_steps_total(steps_total);
    request.set_is_leaving(is_leaving);
    absl::Status status;
    CallCoordinator(
        job.coordinator(), request,
        [&status](const absl::StatusOr<v1::HeartbeatReply>& reply) { status = reply.status(); });
    // The reply has the view without the worker; a later one must not reach `status`.
    if (!is_leaving) job.clock().Advance(absl::Seconds(1));
    return status;
  }
  static void LeaveAll(ScriptedJob& job, int64_t steps_done = 100) {
    for (uint32_t id = 0; id < 2; ++id) {
      ASSERT_TRUE(Beat(job, id, steps_done, 100, /*is_leaving=*/true).ok());
    }
  }
  // Another worker process takes a place. Returns the worker's id.
  static absl::StatusOr<uint32_t> Come(ScriptedJob& job, uint64_t incarnation) {
    v1::RegisterWorkerRequest request;
    request.set_incarnation(incarnation);
    request.set_may_enter_late(true);
    for (const v1::TableSpec& table : ScriptedJob::Tables({64})) *request.add_tables() = table;
    absl::StatusOr<uint32_t> id;
    CallCoordinator(job.coordinator(), request,
                    [&id](const absl::StatusOr<v1::RegisterReply>& reply) {
                      id = reply.ok() ? absl::StatusOr<uint32_t>(reply->id()) : reply.status();
                    });
    return id;
  }
  // Both servers say that the worker may begin at `step`.
  static void Enter(ScriptedJob& job, uint32_t id, uint64_t incarnation, int64_t step) {
    v1::NextStep next_step;
    next_step.set_worker(id);
    next_step.set_incarnation(incarnation);
    next_step.set_step(step);
    v1::CheckpointPart held;  // as servers report it all the time
    held.set_number(job.View().checkpoint().number());
    held.set_held_step(103);
    for (uint32_t server = 0; server < 2; ++server) {
      ASSERT_TRUE(Report(job, server, held, {next_step}).ok());
    }
  }
};

TEST_F(StayingJobTest, ItGoesOnWithoutWorkersThatHaveDoneTheirSteps) {
  const auto job = Train(Staying());
  LeaveAll(*job);
  EXPECT_EQ(job->View().phase(), v1::TRAINING);
  EXPECT_FALSE(job->View().workers(0).is_live() || job->View().workers(1).is_live());
  job->PassTime(absl::Minutes(1), {Server(0), Server(1)});
  EXPECT_EQ(job->View().phase(), v1::TRAINING);
  EXPECT_THAT(std::string(Beat(*job, 0, 100, 100, /*is_leaving=*/true).message()),
              HasSubstr("worker 0 has done its steps, and has left"));
}

TEST_F(StayingJobTest, WorkersThatHaveDoneTheirStepsAreNotLost) {
  const auto job = Train(Staying());
  std::optional<JobOutcome> outcome;
  job->coordinator().OnEnd([&outcome](JobOutcome ended) { outcome = std::move(ended); });
  ASSERT_TRUE(Beat(*job, 0, 100, 100, /*is_leaving=*/true).ok());
  ASSERT_TRUE(Beat(*job, 1, 40, 100, /*is_leaving=*/true).ok());
  for (uint64_t incarnation = 50; incarnation < 52; ++incarnation) {
    ASSERT_TRUE(Come(*job, incarnation).ok());
  }
  EXPECT_THAT(job->Status().replaced_workers(), SizeIs(1)) << "the one that was asked to end";
  job->coordinator().Fail("stopped");
  job->clock().Advance(absl::Seconds(10));
  EXPECT_EQ(outcome.value().workers_lost, 1);
}

TEST_F(StayingJobTest, ItGoesOnWithoutItsLastWorkerAlsoIfThatIsLost) {
  const auto job = Train(Staying());
  job->PassTime(absl::Seconds(15), {Server(0), Server(1)});
  EXPECT_EQ(job->View().phase(), v1::TRAINING);
  EXPECT_FALSE(job->View().workers(0).is_live() || job->View().workers(1).is_live());
}

TEST_F(StayingJobTest, BeforeTheTrainingItNeedsItsWorkers) {
  ScriptedJob job(Staying());
  job.RegisterAll();
  ASSERT_TRUE(Beat(job, 0, 0, 100, /*is_leaving=*/true).ok());
  EXPECT_EQ(job.View().phase(), v1::FAILED);
}

TEST_F(StayingJobTest, LaterWorkersTrainTheNextRound) {
  const auto job = Train(Staying());
  LeaveAll(*job);
  EXPECT_EQ(Come(*job, 50).value(), 0u);
  Enter(*job, 0, 50, /*step=*/100);
  EXPECT_EQ(job->View().workers(0).first_step(), 100);
  EXPECT_TRUE(Beat(*job, 0, 150, 200, /*is_leaving=*/false, /*incarnation=*/50).ok());
  EXPECT_EQ(job->View().phase(), v1::TRAINING);
  EXPECT_TRUE(Beat(*job, 0, 150, 250, /*is_leaving=*/false, /*incarnation=*/50).ok());
  EXPECT_THAT(job->View().reason(), HasSubstr("worker 0 has 250 steps to do, the others 100"));
}

TEST_F(StayingJobTest, AProcessWhosePlaceWasTakenNeverComesBack) {
  const auto job = Train(Staying());
  LeaveAll(*job);
  ASSERT_EQ(Come(*job, 50).value(), 0u);
  Enter(*job, 0, 50, /*step=*/100);
  ASSERT_TRUE(Beat(*job, 0, 200, 200, /*is_leaving=*/true, /*incarnation=*/50).ok());
  const absl::Status again = Come(*job, ScriptedJob::IncarnationOf(Worker(0))).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(again)) << again;
  EXPECT_THAT(std::string(again.message()), HasSubstr("another one has taken its place"));
  EXPECT_EQ(Come(*job, 51).value(), 0u);
}

TEST_F(StayingJobTest, ACheckpointIsWrittenWhenTheLastWorkerHasGone) {
  const auto job = Train(Staying(/*checkpoint_steps=*/40));
  HoldAll(*job, 3);
  EndAll(*job, {Steps(0, 40, 40), Steps(1, 40, 40)});
  HoldAll(*job, 43);
  EndAll(*job, {Steps(0, 80, 80), Steps(1, 80, 80)});
  ASSERT_EQ(disk_.manifests.back().step(), 80);
  HoldAll(*job, 83);
  EXPECT_EQ(job->View().checkpoint().step(), 100) << "nobody gets to step 120 now";
  LeaveAll(*job);
  EndAll(*job, {Steps(0, 100, 100, /*is_live=*/false), Steps(1, 100, 100, /*is_live=*/false)});
  EXPECT_EQ(disk_.manifests.back().step(), 100);
  EXPECT_EQ(disk_.manifests.back().workers(0).first_step(), 100);
  job->PassTime(absl::Minutes(1), {Server(0), Server(1)});
  EXPECT_EQ(job->View().checkpoint().number(), 0u) << "there is nothing new";
}

TEST_F(StayingJobTest, EachRoundHasALastCheckpoint) {
  v1::JobSpec spec = Staying();
  spec.mutable_checkpoint()->set_seconds(3600);
  const auto job = Train(spec);
  LeaveAll(*job);
  job->Heartbeat(Server(0), job->View().version());
  HoldAll(*job, 103);
  EndAll(*job, {Steps(0, 100, 100, /*is_live=*/false), Steps(1, 100, 100, /*is_live=*/false)});
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  ASSERT_TRUE(Come(*job, 50).ok());
  Enter(*job, 0, 50, /*step=*/100);
  ASSERT_TRUE(Beat(*job, 0, 120, 200, /*is_leaving=*/false, /*incarnation=*/50).ok());
  ASSERT_TRUE(Beat(*job, 0, 200, 200, /*is_leaving=*/true, /*incarnation=*/50).ok());
  job->Heartbeat(Server(0), job->View().version());
  HoldAll(*job, 203);
  EXPECT_EQ(job->View().checkpoint().step(), 200);
  EndAll(*job, {Steps(0, 200, 200, /*is_live=*/false), Steps(1, 200, 200, /*is_live=*/false)});
  EXPECT_EQ(disk_.manifests.back().step(), 200);
}

// Chosen before, the step could be one that the entering worker passes before a server knows of it.
TEST_F(StayingJobTest, ACheckpointsStepIsChosenAfterAnEnteringWorkersFirstStep) {
  const auto job = Train(Staying());
  LeaveAll(*job);
  const Answer answer = Ask(*job);
  Hold(*job, 0, 103);
  ASSERT_TRUE(Come(*job, 50).ok());
  Hold(*job, 1, 103);
  EXPECT_EQ(job->View().checkpoint().name(), "") << "the servers still hold back";
  Enter(*job, 0, 50, /*step=*/100);
  EXPECT_EQ(job->View().checkpoint().name(), "c1");
  EXPECT_EQ(job->View().checkpoint().step(), 103);
}

TEST_F(StayingJobTest, ARestoredJobMayBeBeyondItsFirstRound) {
  RestorePoint restored;
  restored.path = "dir/c9";
  restored.manifest.set_step(300);
  restored.manifest.set_end_step(300);
  for (const v1::TableSpec& table : ScriptedJob::Tables({64})) {
    *restored.manifest.add_tables() = table;
  }
  for (int id = 0; id < 2; ++id) restored.manifest.add_workers()->set_first_step(300);
  *restored.manifest.add_consistency()->mutable_consistency() = Job(0).consistency();
  ScriptedJob job(Staying(), nullptr, restored);
  job.StartTraining();
  for (uint32_t id = 0; id < 2; ++id) {
    ASSERT_TRUE(Beat(job, id, 0, 100, /*is_leaving=*/false).ok());
    ASSERT_TRUE(Beat(job, id, 350, 400, /*is_leaving=*/false).ok());
  }
  EXPECT_EQ(job.View().phase(), v1::TRAINING);
  EXPECT_THAT(job.View().reason(), IsEmpty());
}

}  // namespace
}  // namespace capstan
