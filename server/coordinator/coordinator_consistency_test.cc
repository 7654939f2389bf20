#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_job.h"

// Changes of the consistency while the job runs.
namespace capstan {
namespace {

using ::testing::HasSubstr;

using Answer = std::shared_ptr<std::optional<absl::StatusOr<v1::SetConsistencyReply>>>;

Answer Set(ScriptedJob& job, v1::ConsistencySpec::Mode mode, int64_t staleness = 0) {
  v1::SetConsistencyRequest request;
  request.mutable_change()->set_mode(mode);
  if (staleness > 0) request.mutable_change()->set_staleness(staleness);
  auto answer = std::make_shared<std::optional<absl::StatusOr<v1::SetConsistencyReply>>>();
  CallCoordinator(job.coordinator(), request,
                  [answer](absl::StatusOr<v1::SetConsistencyReply> reply) {
                    ASSERT_FALSE(answer->has_value()) << "answered twice";
                    *answer = std::move(reply);
                  });
  return answer;
}

// The server has acted on the newest view, and holds back `step`.
void Hold(ScriptedJob& job, uint32_t server, int64_t step) {
  v1::HeartbeatRequest request;
  request.set_role(v1::HeartbeatRequest::SERVER);
  request.set_id(server);
  request.set_incarnation(ScriptedJob::IncarnationOf(Server(server)));
  request.set_view_version(job.View().version());
  request.mutable_held_step()->set_consistency_change(job.View().consistency_change());
  request.mutable_held_step()->set_step(step);
  CallCoordinator(job.coordinator(), request, [](const absl::StatusOr<v1::HeartbeatReply>&) {});
}

TEST(CoordinatorConsistencyTest, TheJobsOwnIsThereFromTheStart) {
  ScriptedJob job;
  ASSERT_EQ(job.View().consistency_size(), 1);
  EXPECT_EQ(job.View().consistency(0).consistency().mode(), v1::ConsistencySpec::BSP);
}

TEST(CoordinatorConsistencyTest, AChangeBeginsWhenAllServersHoldItsStepBack) {
  ScriptedJob job;
  job.StartTraining();
  const Answer answer = Set(job, v1::ConsistencySpec::SSP, 4);
  EXPECT_FALSE(answer->has_value());
  EXPECT_EQ(job.View().consistency_change(), 1u);
  EXPECT_EQ(job.View().consistency_size(), 1);
  Hold(job, 0, 12);
  EXPECT_FALSE(answer->has_value()) << "the other server may have seen later steps";
  Hold(job, 1, 15);
  ASSERT_TRUE(answer->has_value());
  ASSERT_TRUE((*answer)->ok()) << (*answer)->status();
  EXPECT_EQ((**answer)->period().first_step(), 15);
  EXPECT_EQ(job.View().consistency_change(), 0u);
  ASSERT_EQ(job.View().consistency_size(), 2);
  EXPECT_EQ(job.View().consistency(1).first_step(), 15);
  EXPECT_EQ(job.View().consistency(1).consistency().staleness(), 4);
}

TEST(CoordinatorConsistencyTest, AnotherChangeMustWaitAndTheSameOneJoins) {
  ScriptedJob job;
  job.StartTraining();
  const Answer first = Set(job, v1::ConsistencySpec::SSP, 4);
  const Answer other = Set(job, v1::ConsistencySpec::ASYNC);
  ASSERT_TRUE(other->has_value());
  EXPECT_TRUE(absl::IsFailedPrecondition((*other)->status()));
  const Answer same = Set(job, v1::ConsistencySpec::SSP, 4);
  EXPECT_FALSE(same->has_value());
  Hold(job, 0, 5);
  Hold(job, 1, 5);
  ASSERT_TRUE(first->has_value() && same->has_value());
  EXPECT_EQ((**first)->period().first_step(), 5);
  EXPECT_EQ((**same)->period().first_step(), 5);
}

TEST(CoordinatorConsistencyTest, ALaterChangeBeginsAtALaterStep) {
  ScriptedJob job;
  job.StartTraining();
  for (int i = 0; i < 2; ++i) {
    const Answer answer = Set(job, v1::ConsistencySpec::SSP, 1 + i);
    Hold(job, 0, 5);
    Hold(job, 1, 5);
    ASSERT_TRUE(answer->has_value());
    EXPECT_EQ((**answer)->period().first_step(), 5 + i);
  }
}

TEST(CoordinatorConsistencyTest, OnlyAJobThatTrainsCanBeChanged) {
  ScriptedJob job;
  job.RegisterAll();
  const Answer answer = Set(job, v1::ConsistencySpec::ASYNC);
  ASSERT_TRUE(answer->has_value());
  EXPECT_TRUE(absl::IsFailedPrecondition((*answer)->status()));
  EXPECT_THAT(std::string((*answer)->status().message()), HasSubstr("phase PLACING"));
}

TEST(CoordinatorConsistencyTest, WhoWaitsIsToldThatTheJobHasEnded) {
  ScriptedJob job;
  job.StartTraining();
  const Answer answer = Set(job, v1::ConsistencySpec::ASYNC);
  job.coordinator().Fail("interrupted");
  ASSERT_TRUE(answer->has_value());
  EXPECT_TRUE(absl::IsFailedPrecondition((*answer)->status()));
}

TEST(CoordinatorConsistencyTest, WhoWaitsIsToldThatTheCoordinatorStops) {
  ScriptedJob job;
  job.StartTraining();
  const Answer answer = Set(job, v1::ConsistencySpec::ASYNC);
  job.DestroyCoordinator();
  ASSERT_TRUE(answer->has_value());
  EXPECT_TRUE(absl::IsCancelled((*answer)->status()));
}

// What a worker of one table, w, is told by the coordinator of such a job.
absl::Status RegisterWorkerOf(const v1::JobSpec& spec,
                              const v1::TableSpec& table = ScriptedJob::Tables({4})[0]) {
  FakeClock clock;
  Coordinator::Options options;
  options.job = spec;
  Coordinator coordinator(std::move(options), clock);
  v1::RegisterWorkerRequest request;
  request.set_incarnation(1);
  *request.add_tables() = table;
  absl::Status status;
  CallCoordinator(coordinator, request,
                  [&](const absl::StatusOr<v1::RegisterReply>& reply) { status = reply.status(); });
  return status;
}

TEST(CoordinatorConsistencyTest, AStalenessOfATableThatNoWorkerHasIsRefused) {
  v1::JobSpec spec = ScriptedJob::Job();
  spec.mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  v1::TableStaleness& own = *spec.mutable_consistency()->add_table_staleness();
  own.set_table("v");
  own.set_staleness(2);
  EXPECT_EQ(
      RegisterWorkerOf(spec),
      absl::InvalidArgumentError("--table_staleness: expected tables of the model (w), got \"v\""));
}

TEST(CoordinatorConsistencyTest, ACodecOfATableThatNoWorkerHasIsRefused) {
  v1::JobSpec spec = ScriptedJob::Job();
  v1::TableCodec& own = *spec.mutable_codec()->add_table_codec();
  own.set_table("v");
  own.set_codec("int8");
  EXPECT_EQ(
      RegisterWorkerOf(spec),
      absl::InvalidArgumentError("--table_codec: expected tables of the model (w), got \"v\""));
}

TEST(CoordinatorConsistencyTest, AnOptimizerThatCannotBeMadeIsRefusedWithItsTable) {
  v1::TableSpec table = ScriptedJob::Tables({4})[0];
  table.mutable_optimizer()->set_type(v1::OptimizerSpec::MOMENTUM);
  EXPECT_TRUE(RegisterWorkerOf(ScriptedJob::Job(), table).ok());
  table.mutable_optimizer()->set_momentum(1);
  EXPECT_EQ(RegisterWorkerOf(ScriptedJob::Job(), table),
            absl::InvalidArgumentError("table w: optimizer.momentum: expected a number that is at "
                                       "least 0 and, as float32, below 1, got 1; correct it"));
}

}  // namespace
}  // namespace capstan
