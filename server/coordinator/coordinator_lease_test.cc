#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_job.h"

// Heartbeats, and the death of members without them.
namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(10);

std::string RefusalOf(const ScriptedJob::Beat& beat,
                      absl::StatusCode code = absl::StatusCode::kFailedPrecondition) {
  if (!beat->has_value()) return "parked";
  EXPECT_EQ((*beat)->status().code(), code);
  return std::string((*beat)->status().message());
}

TEST(CoordinatorHeartbeatTest, IsAnsweredAtOnceWhenThereIsANewerView) {
  ScriptedJob job;
  job.RegisterAll();
  const auto beat = job.Heartbeat(Worker(0), job.View().version() - 1);
  ASSERT_TRUE(beat->has_value());
  EXPECT_EQ(ViewOf((*beat)->value())->phase(), v1::PLACING);
}

TEST(CoordinatorHeartbeatTest, IsParkedForTheIntervalWhenTheViewIsKnown) {
  ScriptedJob job;
  job.RegisterAll();
  const auto beat = job.Heartbeat(Worker(0), job.View().version());
  job.clock().Advance(absl::Milliseconds(499));
  EXPECT_FALSE(beat->has_value());
  job.clock().Advance(absl::Milliseconds(1));
  ASSERT_TRUE(beat->has_value());
  EXPECT_TRUE((*beat)->value().view().empty());
}

TEST(CoordinatorHeartbeatTest, HasNoViewThatTheMemberHasReceivedAndNotYetActedOn) {
  ScriptedJob job;
  job.RegisterAll();
  v1::HeartbeatRequest request;
  request.set_role(v1::HeartbeatRequest::SERVER);
  request.set_incarnation(ScriptedJob::IncarnationOf(Server(0)));
  request.set_view_version(job.View().version() - 1);
  request.set_received_version(job.View().version());
  std::optional<v1::HeartbeatReply> answer;
  CallCoordinator(job.coordinator(), request, [&](auto reply) { answer = reply.value(); });
  EXPECT_FALSE(answer.has_value());
  job.clock().Advance(absl::Milliseconds(500));
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->view().empty());
}

TEST(CoordinatorHeartbeatTest, BringsTheTablesAndAStatusBringsThemIfAsked) {
  ScriptedJob job;
  job.RegisterAll();
  const auto beat = job.Heartbeat(Worker(0), /*view_version=*/0);
  EXPECT_EQ(ViewOf((*beat)->value())->tables_size(), 1);
  for (const bool without_tables : {false, true}) {
    v1::GetStatusRequest request;
    request.set_without_tables(without_tables);
    CallCoordinator(job.coordinator(), request,
                    [&](const absl::StatusOr<v1::GetStatusReply>& reply) {
                      EXPECT_EQ(reply->view().tables_size(), without_tables ? 0 : 1);
                      EXPECT_EQ(reply->view().servers_size(), 2);
                    });
  }
}

TEST(CoordinatorHeartbeatTest, IsAnsweredWhenTheViewChanges) {
  ScriptedJob job;
  ASSERT_TRUE(job.RegisterWorker(ScriptedJob::IncarnationOf(Worker(0))).ok());
  const auto beat = job.Heartbeat(Worker(0), job.View().version());
  EXPECT_FALSE(beat->has_value());
  ASSERT_TRUE(job.RegisterServer(1).ok());
  ASSERT_TRUE(beat->has_value());
  EXPECT_EQ(ViewOf((*beat)->value())->servers_size(), 1);
}

TEST(CoordinatorHeartbeatTest, AnswersTheOlderOneOfTheSameMember) {
  ScriptedJob job;
  job.RegisterAll();
  const auto older = job.Heartbeat(Worker(0), job.View().version());
  const auto other = job.Heartbeat(Worker(1), job.View().version());
  const auto newer = job.Heartbeat(Worker(0), job.View().version());
  EXPECT_TRUE(older->has_value());
  EXPECT_FALSE(other->has_value());
  EXPECT_FALSE(newer->has_value());
}

// A heartbeat that another process of worker 0 sends.
v1::HeartbeatRequest OfPart(ScriptedJob& job, uint64_t incarnation) {
  v1::HeartbeatRequest request;
  request.set_role(v1::HeartbeatRequest::WORKER);
  request.set_incarnation(incarnation);
  request.set_received_version(job.View().version());
  request.set_part(1);
  request.mutable_progress()->set_steps_done(7);
  return request;
}

TEST(CoordinatorHeartbeatTest, OfAPartOfAWorkerWaitsForViewsBesideTheWorkersOwn) {
  ScriptedJob job;
  job.RegisterAll();
  const auto own = job.Heartbeat(Worker(0), job.View().version());
  std::optional<absl::StatusOr<v1::HeartbeatReply>> answer;
  const auto ask = [&](uint64_t incarnation) {
    CallCoordinator(job.coordinator(), OfPart(job, incarnation),
                    [&](auto reply) { answer = std::move(reply); });
  };
  ask(ScriptedJob::IncarnationOf(Worker(0)));
  EXPECT_FALSE(own->has_value());
  EXPECT_FALSE(answer.has_value());
  job.clock().Advance(absl::Milliseconds(500));
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE((*answer)->view().empty());
  EXPECT_EQ(job.Status().progress(0).steps_done(), 0);
  ask(ScriptedJob::IncarnationOf(Worker(1)));
  EXPECT_EQ(answer->status().code(), absl::StatusCode::kFailedPrecondition);
  for (const bool is_of_server : {false, true}) {
    v1::HeartbeatRequest wrong = OfPart(job, ScriptedJob::IncarnationOf(Worker(0)));
    wrong.set_part(kMostWorkerParts + 1);
    if (is_of_server) {
      wrong = OfPart(job, ScriptedJob::IncarnationOf(Server(0)));
      wrong.set_role(v1::HeartbeatRequest::SERVER);
    }
    CallCoordinator(job.coordinator(), wrong, [&](auto reply) { answer = std::move(reply); });
    EXPECT_EQ(answer->status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(CoordinatorLeaseTest, APartOfAWorkerHoldsNoLeaseForIt) {
  ScriptedJob job;
  job.StartTraining();
  for (absl::Duration passed; passed < absl::Seconds(11); passed += absl::Seconds(1)) {
    CallCoordinator(job.coordinator(), OfPart(job, ScriptedJob::IncarnationOf(Worker(0))),
                    [](const absl::StatusOr<v1::HeartbeatReply>&) {});
    job.PassTime(absl::Seconds(1), {Server(0), Server(1), Worker(1)});
  }
  EXPECT_FALSE(job.View().workers(0).is_live());
  EXPECT_TRUE(job.View().workers(1).is_live());
}

TEST(CoordinatorHeartbeatTest, IsRefusedForStrangers) {
  ScriptedJob job;
  EXPECT_THAT(RefusalOf(job.Heartbeat(Worker(0), 0)), HasSubstr("worker 0 has not registered"));
  ASSERT_TRUE(job.RegisterWorker(/*incarnation=*/5).ok());
  EXPECT_THAT(RefusalOf(job.Heartbeat(Worker(0), 0)), HasSubstr("another process"));
}

TEST(CoordinatorHeartbeatTest, IsRefusedWithAVersionThatDoesNotExistYet) {
  ScriptedJob job;
  job.RegisterAll();
  EXPECT_THAT(RefusalOf(job.Heartbeat(Server(0), 1000), absl::StatusCode::kInvalidArgument),
              HasSubstr("view_version 1000"));
}

TEST(CoordinatorHeartbeatTest, ParkedIsAnsweredCancelledAtShutdown) {
  ScriptedJob job;
  job.RegisterAll();
  const auto beat = job.Heartbeat(Worker(0), job.View().version());
  job.DestroyCoordinator();
  ASSERT_TRUE(beat->has_value());
  EXPECT_EQ((*beat)->status().code(), absl::StatusCode::kCancelled);
  job.clock().Advance(absl::Minutes(1));
}

TEST(CoordinatorLeaseTest, RunsFromTheAnswerOfAParkedHeartbeat) {
  ScriptedJob job;
  job.StartTraining();
  job.Heartbeat(Worker(0), job.View().version());  // Answered after 0.5 s.
  job.PassTime(absl::Milliseconds(10'499), {Server(0), Server(1), Worker(1)});
  EXPECT_TRUE(job.View().workers(0).is_live());
  job.PassTime(absl::Milliseconds(1), {Server(0), Server(1), Worker(1)});
  EXPECT_FALSE(job.View().workers(0).is_live());
}

TEST(CoordinatorLeaseTest, MembersThatSendHeartbeatsStayAlive) {
  ScriptedJob job;
  job.StartTraining();
  const uint64_t version = job.View().version();
  job.PassTime(absl::Minutes(5), {Server(0), Server(1), Worker(0), Worker(1)});
  EXPECT_EQ(job.View().version(), version);
}

TEST(CoordinatorLeaseTest, DeadWorkerIsToldWhyAndTheOthersGoOn) {
  ScriptedJob job;
  job.StartTraining();
  const uint64_t version = job.View().version();
  job.PassTime(absl::Seconds(11), {Server(0), Server(1), Worker(0)});
  EXPECT_EQ(job.View().phase(), v1::TRAINING);
  EXPECT_EQ(job.View().version(), version + 1);
  EXPECT_FALSE(job.View().workers(1).is_live());
  EXPECT_TRUE(job.View().workers(0).is_live());
  EXPECT_THAT(RefusalOf(job.Heartbeat(Worker(1), 0)),
              HasSubstr("worker 1 was declared dead because it was silent for 10 s; "));
  EXPECT_EQ(job.RegisterWorker(ScriptedJob::IncarnationOf(Worker(1))).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(CoordinatorLeaseTest, DeadWorkerIsNotWaitedForBeforeEvaluation) {
  ScriptedJob job;
  job.StartTraining();
  job.FinishSteps(1);
  job.PassTime(absl::Seconds(11), {Server(0), Server(1), Worker(1)});
  EXPECT_EQ(job.View().phase(), v1::EVALUATING);
  EXPECT_EQ(job.View().evaluator(), 1u);
}

TEST(CoordinatorLeaseTest, NextWorkerEvaluatesWhenTheEvaluatorDies) {
  ScriptedJob job;
  job.StartTraining();
  job.FinishSteps(0);
  job.FinishSteps(1);
  ASSERT_EQ(job.View().evaluator(), 0u);
  job.PassTime(absl::Seconds(11), {Server(0), Server(1), Worker(1)});
  EXPECT_EQ(job.View().phase(), v1::EVALUATING);
  EXPECT_EQ(job.View().evaluator(), 1u);
  EXPECT_TRUE(job.ReportResult(1).ok());
}

TEST(CoordinatorLeaseTest, JobFailsWhenNoWorkerIsLeft) {
  ScriptedJob job;
  job.StartTraining();
  job.PassTime(absl::Seconds(11), {Server(0), Server(1)});
  EXPECT_EQ(job.View().phase(), v1::FAILED);
  EXPECT_THAT(job.View().reason(),
              HasSubstr("worker 1 has been silent for 10 s (lease) and was the last live worker"));
}

TEST(CoordinatorLeaseTest, JobFailsWhenAServerDies) {
  ScriptedJob job;
  job.StartTraining();
  job.PassTime(absl::Seconds(11), {Server(0), Worker(0), Worker(1)});
  EXPECT_EQ(job.View().phase(), v1::FAILED);
  EXPECT_THAT(job.View().reason(), HasSubstr("server 1 (host:4567) has been silent for 10 s "
                                             "(lease); its shards are lost: "));
  EXPECT_FALSE(job.View().servers(1).is_live());
}

TEST(CoordinatorLeaseTest, JobFailsWhenAMemberDiesBeforeTraining) {
  ScriptedJob registering;
  ASSERT_TRUE(registering.RegisterWorker(1).ok());
  registering.clock().Advance(kLease);
  EXPECT_EQ(registering.View().phase(), v1::FAILED);
  EXPECT_THAT(registering.View().reason(),
              HasSubstr("worker 0 has been silent for 10 s (lease) before training began"));

  ScriptedJob placing;
  placing.RegisterAll();
  placing.PassTime(absl::Seconds(11), {Server(0), Worker(0), Worker(1)});
  EXPECT_EQ(placing.View().phase(), v1::FAILED);
  EXPECT_THAT(placing.View().reason(), HasSubstr("server 1"));
}

// The call Attend of a member; the answer is empty while it is open.
std::shared_ptr<std::optional<absl::Status>> Attend(ScriptedJob& job, MemberKey member,
                                                    std::optional<uint64_t> incarnation = {}) {
  v1::AttendRequest request;
  request.set_role(member.role);
  request.set_id(member.id);
  request.set_incarnation(incarnation.value_or(ScriptedJob::IncarnationOf(member)));
  auto answer = std::make_shared<std::optional<absl::Status>>();
  CallCoordinator(job.coordinator(), request,
                  [answer](const absl::StatusOr<v1::AttendReply>& reply) {
                    EXPECT_FALSE(answer->has_value());
                    *answer = reply.status();
                  });
  return answer;
}

TEST(CoordinatorAttendTest, ACallStaysOpenUntilTheMemberCallsAgainOrTheJobEnds) {
  ScriptedJob job;
  job.StartTraining();
  const auto first = Attend(job, Worker(0));
  const auto of_another = Attend(job, Worker(1));
  job.PassTime(absl::Seconds(30), {Server(0), Server(1), Worker(0), Worker(1)});
  EXPECT_FALSE(first->has_value());
  const auto second = Attend(job, Worker(0));
  ASSERT_TRUE(first->has_value());
  EXPECT_TRUE((*first)->ok());
  EXPECT_FALSE(second->has_value());
  EXPECT_FALSE(of_another->has_value());
  job.coordinator().Fail("enough");
  ASSERT_TRUE(second->has_value());
  EXPECT_TRUE((*second)->ok());
  EXPECT_TRUE(of_another->has_value());
  const auto late = Attend(job, Worker(0));
  ASSERT_TRUE(late->has_value());
  EXPECT_TRUE((*late)->ok());
}

TEST(CoordinatorAttendTest, ACallThatHasBrokenIsAnsweredAlsoIfTheMemberIsNeeded) {
  ScriptedJob job;
  job.StartTraining();
  const auto call = Attend(job, Worker(0));
  v1::AttendRequest broken;
  broken.set_role(v1::HeartbeatRequest::WORKER);
  broken.set_incarnation(999);  // of a process in whose place it came
  job.coordinator().NoteBroken(broken);
  EXPECT_FALSE(call->has_value());
  broken.set_incarnation(ScriptedJob::IncarnationOf(Worker(0)));
  job.coordinator().NoteBroken(broken);
  EXPECT_TRUE(call->has_value());
  job.coordinator().NoteBroken(broken);
}

TEST(CoordinatorAttendTest, WhoIsNoMemberIsRefused) {
  ScriptedJob job;
  job.StartTraining();
  const auto call = Attend(job, Worker(0), /*incarnation=*/999);
  ASSERT_TRUE(call->has_value());
  EXPECT_TRUE(absl::IsFailedPrecondition(**call)) << **call;
  const auto stranger = Attend(job, Worker(77));
  ASSERT_TRUE(stranger->has_value());
  EXPECT_TRUE(absl::IsFailedPrecondition(**stranger)) << **stranger;
}

TEST(CoordinatorAttendTest, TheCoordinatorsOwnEndAnswersAllCalls) {
  auto job = std::make_unique<ScriptedJob>();
  job->StartTraining();
  const auto call = Attend(*job, Server(1));
  job.reset();
  ASSERT_TRUE(call->has_value());
  EXPECT_TRUE(absl::IsCancelled(**call)) << **call;
}

}  // namespace
}  // namespace capstan
