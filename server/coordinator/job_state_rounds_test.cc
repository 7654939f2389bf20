// Jobs whose workers have local steps.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/base/fake_clock.h"
#include "server/coordinator/job_state.h"
#include "server/coordinator/saved_job.h"
#include "server/coordinator/scripted_job.h"

namespace capstan {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;

v1::RegisterWorkerRequest WorkerOfRounds(uint64_t incarnation, int64_t sync_every = 50) {
  v1::RegisterWorkerRequest request;
  request.set_incarnation(incarnation);
  *request.add_tables() = ScriptedJob::Tables({64})[0];
  request.mutable_local_steps()->set_sync_every(sync_every);
  request.mutable_local_steps()->set_fragments(2);
  return request;
}

class JobStateRoundsTest : public testing::Test {
 protected:
  void StartTraining(JobState& job) {
    for (const uint32_t id : {0, 1}) {
      v1::RegisterServerRequest server;
      server.set_incarnation(ScriptedJob::IncarnationOf(Server(id)));
      server.set_address("host:400" + std::to_string(id));
      ASSERT_TRUE(job.RegisterServer(server).ok());
      ASSERT_TRUE(job.RegisterWorker(WorkerOfRounds(ScriptedJob::IncarnationOf(Worker(id)))).ok());
    }
    ASSERT_EQ(job.view().phase(), v1::PLACING);
    for (const uint32_t id : {0, 1}) {
      v1::HeartbeatRequest heartbeat;
      heartbeat.set_role(v1::HeartbeatRequest::SERVER);
      heartbeat.set_id(id);
      heartbeat.set_incarnation(ScriptedJob::IncarnationOf(Server(id)));
      heartbeat.set_view_version(job.view().version());
      ASSERT_TRUE(job.Heartbeat(heartbeat).ok());
    }
    ASSERT_EQ(job.view().phase(), v1::TRAINING);
  }
  // What the job says to a change of its mode.
  absl::Status Set(JobState& job, v1::ConsistencySpec::Mode mode) {
    v1::SetConsistencyRequest request;
    request.mutable_change()->set_mode(mode);
    return job.BeginConsistencyChange(request).status();
  }

  FakeClock clock_;
};

TEST_F(JobStateRoundsTest, TheViewHasTheLocalStepsOfAllWorkers) {
  JobState job(ScriptedJob::Job(), clock_);
  ASSERT_TRUE(job.RegisterWorker(WorkerOfRounds(200)).ok());
  EXPECT_FALSE(job.view().has_local_steps());
  EXPECT_THAT(job.RegisterWorker(WorkerOfRounds(201, /*sync_every=*/100)).status().message(),
              HasSubstr("sync_every 100, fragments 2, fragment_sync_delay 0 where the first"));

  JobState other(ScriptedJob::Job(), clock_);
  StartTraining(other);
  EXPECT_EQ(other.view().local_steps().sync_every(), 50);
  EXPECT_EQ(other.view().local_steps().fragments(), 2u);
}

TEST_F(JobStateRoundsTest, TheConsistencyIsChangedOnlyIfTheMomentumAllowsIt) {
  JobState job(ScriptedJob::Job(), clock_);
  StartTraining(job);
  for (const auto mode : {v1::ConsistencySpec::ASYNC, v1::ConsistencySpec::SSP}) {
    const absl::Status status = Set(job, mode);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("table w: with local steps and consistency"));
    EXPECT_EQ(job.view().consistency_change(), 0u);
  }
  v1::JobSpec spec = ScriptedJob::Job();
  spec.mutable_optimizer()->set_momentum(0.5);
  JobState gentle(spec, clock_);
  StartTraining(gentle);
  EXPECT_EQ(Set(gentle, v1::ConsistencySpec::ASYNC), absl::OkStatus());
}

TEST_F(JobStateRoundsTest, TheNextCoordinatorHasTheSameLocalSteps) {
  JobState job(ScriptedJob::Job(), clock_, {}, /*term=*/1);
  StartTraining(job);
  const SavedJob saved = {job.State(), std::make_shared<const v1::JobConstants>(job.Constants())};
  ASSERT_EQ(CheckSavedJob(saved, ScriptedJob::Job()), absl::OkStatus());
  JobState next(ScriptedJob::Job(), clock_, {}, /*term=*/2);
  next.GoOn(saved);
  EXPECT_EQ(next.view().local_steps().sync_every(), 50);
  EXPECT_TRUE(MessageDifferencer::Equals(next.Constants(), job.Constants()));
  EXPECT_TRUE(absl::IsInvalidArgument(Set(next, v1::ConsistencySpec::ASYNC)));
}

TEST_F(JobStateRoundsTest, NoPlaceIsHeldAsNobodyCanDoTheLocalStepsAgain) {
  v1::JobSpec spec = ScriptedJob::Job();
  spec.mutable_membership()->set_replace_seconds(20);
  JobState job(spec, clock_);
  StartTraining(job);
  EXPECT_FALSE(job.view().holds_places());
  EXPECT_EQ(job.view().place_refusal(), "its local steps of the round are gone");
}

}  // namespace
}  // namespace capstan
