#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_checkpoints.h"
#include "server/coordinator/scripted_job.h"

// The loss of a worker, in jobs that may go on with other bits and in jobs that may not.
namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CoordinatorBitsTest : public ScriptedCheckpoints {
 protected:
  static v1::JobSpec JobThatMayNot() {
    v1::JobSpec job = Job(/*steps=*/0);
    job.mutable_membership()->set_allow_other_bits(false);
    return job;
  }
  static void LoseWorker1(ScriptedJob& job) {
    job.PassTime(absl::Seconds(11), {Server(0), Server(1), Worker(0)});
  }
  static void AskWorker1ToEnd(ScriptedJob& job) {
    v1::HeartbeatRequest request;
    request.set_role(v1::HeartbeatRequest::WORKER);
    request.set_id(1);
    request.set_incarnation(ScriptedJob::IncarnationOf(Worker(1)));
    request.set_view_version(job.View().version());
    request.set_is_leaving(true);
    CallCoordinator(job.coordinator(), request, [](const absl::StatusOr<v1::HeartbeatReply>&) {});
  }
};

TEST_F(CoordinatorBitsTest, AJobThatMayNotHaveOtherBitsFailsWithALostWorker) {
  const auto job = Train(JobThatMayNot());
  LoseWorker1(*job);
  EXPECT_EQ(job->View().phase(), v1::FAILED);
  EXPECT_EQ(job->View().reason(),
            "worker 1 has been silent for 10 s (lease); under bsp the others could go on with "
            "other bits only (--allow_other_bits)");
}

TEST_F(CoordinatorBitsTest, ItFailsAlsoWithOneThatLeaves) {
  const auto job = Train(JobThatMayNot());
  AskWorker1ToEnd(*job);
  EXPECT_EQ(job->View().phase(), v1::FAILED);
  EXPECT_THAT(job->View().reason(), AllOf(HasSubstr("worker 1 was asked to end, and has left; "),
                                          HasSubstr("(--allow_other_bits)")));
}

TEST_F(CoordinatorBitsTest, NoCheckpointLacksAWorkerThen) {
  const auto job = Train(JobThatMayNot());
  Ask(*job);
  HoldAll(*job, 30);
  const v1::JobView view = job->View();
  AskWorker1ToEnd(*job);
  for (uint32_t server = 0; server < 2; ++server) {
    Report(*job, server, Ended(view, server, {Steps(0, 30, 30), Steps(1, 20, 20, false)}))
        .IgnoreError();
  }
  EXPECT_THAT(disk_.manifests, IsEmpty());
}

TEST_F(CoordinatorBitsTest, WithoutBspThereAreNoBitsToKeep) {
  v1::JobSpec spec = JobThatMayNot();
  spec.mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  const auto job = Train(spec);
  LoseWorker1(*job);
  EXPECT_EQ(job->View().phase(), v1::TRAINING);
}

TEST_F(CoordinatorBitsTest, WhoIsLostAfterTheLastStepChangesNoBits) {
  const auto job = Train(JobThatMayNot());
  for (uint32_t id = 0; id < 2; ++id) job->FinishSteps(id, /*steps=*/100);
  ASSERT_EQ(job->View().phase(), v1::EVALUATING);
  LoseWorker1(*job);
  EXPECT_EQ(job->View().phase(), v1::EVALUATING);
}

TEST_F(CoordinatorBitsTest, OtherBitsAreToldByCheckpointsAndByTheEnd) {
  const auto job = Train();
  std::optional<JobOutcome> outcome;
  job->coordinator().OnEnd([&](JobOutcome ended) { outcome = std::move(ended); });
  Ask(*job);
  HoldAll(*job, 20);
  EndAll(*job, {Steps(0, 20, 20), Steps(1, 20, 20)});
  LoseWorker1(*job);
  Ask(*job);
  HoldAll(*job, 30);
  EndAll(*job, {Steps(0, 30, 30), Steps(1, 20, 20, /*is_live=*/false)});
  ASSERT_THAT(disk_.manifests, SizeIs(2));
  EXPECT_FALSE(disk_.manifests[0].has_other_bits());
  EXPECT_TRUE(disk_.manifests[1].has_other_bits());
  job->coordinator().Fail("stopped");
  job->clock().Advance(absl::Seconds(10));
  EXPECT_TRUE(outcome.value().has_other_bits);
  // A job that goes on from there has them, too.
  ScriptedJob next(Job(0), nullptr, RestorePoint{"dir/c2", disk_.manifests[1]});
  next.coordinator().OnEnd([&](JobOutcome ended) { outcome = std::move(ended); });
  outcome.reset();
  next.coordinator().Fail("stopped");
  next.clock().Advance(absl::Seconds(10));
  EXPECT_TRUE(outcome.value().has_other_bits);
}

}  // namespace
}  // namespace capstan
