#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_job.h"

// Registration, and the phases of a job without deaths.
namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const absl::Status& status, absl::StatusCode code) {
  EXPECT_EQ(status.code(), code) << status;
  return std::string(status.message());
}

TEST(CoordinatorTest, GivesTheJobAndItsFingerprint) {
  ScriptedJob job;
  int answers = 0;
  CallCoordinator(job.coordinator(), v1::GetJobRequest(),
                  [&](absl::StatusOr<v1::GetJobReply> reply) {
                    ++answers;
                    ASSERT_TRUE(reply.ok());
                    EXPECT_EQ(reply->job().name(), "scripted");
                    EXPECT_EQ(reply->job_fingerprint(), 77u);
                  });
  EXPECT_EQ(answers, 1);
}

TEST(CoordinatorTest, GivesIdsInOrderOfRegistration) {
  ScriptedJob job;
  EXPECT_EQ(job.RegisterWorker(/*incarnation=*/9).value(), 0u);
  EXPECT_EQ(job.RegisterWorker(3).value(), 1u);
  EXPECT_EQ(job.RegisterServer(7).value(), 0u);
}

TEST(CoordinatorTest, GivesARepeatedRegistrationTheSameId) {
  ScriptedJob job;
  job.RegisterAll();
  const uint64_t version = job.View().version();
  EXPECT_EQ(job.RegisterWorker(ScriptedJob::IncarnationOf(Worker(1))).value(), 1u);
  EXPECT_EQ(job.RegisterServer(ScriptedJob::IncarnationOf(Server(1))).value(), 1u);
  EXPECT_EQ(job.View().version(), version);
}

TEST(CoordinatorTest, RefusesAMemberWhenAllPlacesAreTaken) {
  ScriptedJob job;
  job.RegisterAll();
  EXPECT_THAT(ErrorOf(job.RegisterWorker(1).status(), absl::StatusCode::kFailedPrecondition),
              HasSubstr("the job has its 2 workers already; "));
  EXPECT_THAT(ErrorOf(job.RegisterServer(1).status(), absl::StatusCode::kFailedPrecondition),
              HasSubstr("the job has its 2 servers already; "));
}

TEST(CoordinatorTest, RefusesAWorkerOfAnotherModel) {
  ScriptedJob job;
  const uint64_t first = ScriptedJob::IncarnationOf(Worker(0));
  ASSERT_TRUE(job.RegisterWorker(first, ScriptedJob::Tables({4, 3})).ok());
  const std::string error = ErrorOf(job.RegisterWorker(2, ScriptedJob::Tables({4, 5})).status(),
                                    absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(error, HasSubstr("table w of shape [4, 5]"));
  EXPECT_THAT(error, HasSubstr("table w of shape [4, 3]"));
  EXPECT_THAT(error, HasSubstr("start every worker with the same job"));
  EXPECT_EQ(job.View().workers_size(), 1);
  // Whoever waits for the refused worker hears why it does not come.
  job.PassTime(absl::Seconds(300), {Worker(0)});
  EXPECT_THAT(job.View().reason(), HasSubstr("start the job again; refused: a worker on "));
  EXPECT_THAT(job.View().reason(), HasSubstr("this worker has table w of shape [4, 5]"));
}

TEST(CoordinatorTest, RefusesBadTablesAndThenTakesTheNextWorkersAsTheFirst) {
  ScriptedJob job;
  EXPECT_EQ(job.RegisterWorker(1, ScriptedJob::Tables({0})).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(job.RegisterWorker(2, ScriptedJob::Tables({3})).value(), 0u);
}

TEST(CoordinatorTest, RefusesAServerWithoutAddress) {
  ScriptedJob job;
  EXPECT_THAT(ErrorOf(job.RegisterServer(1, "").status(), absl::StatusCode::kInvalidArgument),
              HasSubstr("expected host:port"));
}

TEST(CoordinatorTest, AMemberThatFailsBeforeItRegistersFailsTheJob) {
  for (const Role role : {v1::HeartbeatRequest::SERVER, v1::HeartbeatRequest::WORKER}) {
    ScriptedJob job;
    ASSERT_TRUE(job.RegisterServer(1).ok());
    ASSERT_TRUE(job.ReportEarlyFailure(role, "no such file").ok());
    EXPECT_EQ(job.View().phase(), v1::FAILED);
    EXPECT_EQ(job.View().reason(),
              absl::StrCat("a ", RoleName(role), " failed before it registered: no such file"));
  }
}

TEST(CoordinatorTest, WhatAMemberSaysMayBePrinted) {
  ScriptedJob job;
  EXPECT_FALSE(job.RegisterServer(1, "\x1b[2J:4567").ok());
  std::vector<v1::TableSpec> tables = ScriptedJob::Tables({4});
  tables[0].set_name("\x1b[2J");
  EXPECT_FALSE(job.RegisterWorker(1, tables).ok());
  job.RegisterAll();
  ASSERT_TRUE(job.ReportFailure(Worker(1), "\x1b[2J").ok());
  EXPECT_EQ(job.View().reason(), "worker 1: \\x1b[2J");
}

TEST(CoordinatorTest, AMemberTooManyThatFailsBeforeItRegistersIsNotMissed) {
  ScriptedJob job;
  for (uint64_t incarnation : {1, 2}) ASSERT_TRUE(job.RegisterServer(incarnation).ok());
  ASSERT_TRUE(job.ReportEarlyFailure(v1::HeartbeatRequest::SERVER, "port in use").ok());
  EXPECT_EQ(job.View().phase(), v1::REGISTERING);
  ScriptedJob training;
  training.StartTraining();
  ASSERT_TRUE(training.ReportEarlyFailure(v1::HeartbeatRequest::WORKER, "no such file").ok());
  EXPECT_EQ(training.View().phase(), v1::TRAINING);
  EXPECT_FALSE(training.ReportEarlyFailure(v1::HeartbeatRequest::ROLE_UNSPECIFIED, "x").ok());
}

TEST(CoordinatorTest, WaitsForItsMembersUntilTheDeadlineAndNamesWhoIsMissing) {
  ScriptedJob job;
  ASSERT_TRUE(job.RegisterServer(ScriptedJob::IncarnationOf(Server(0))).ok());
  job.PassTime(absl::Milliseconds(299'999), {Server(0)});
  EXPECT_EQ(job.View().phase(), v1::REGISTERING);
  job.PassTime(absl::Milliseconds(1), {Server(0)});
  EXPECT_EQ(job.View().phase(), v1::FAILED);
  EXPECT_EQ(job.View().reason(),
            "after 300 s (--registration_seconds) 1 of 2 servers (0) and 0 of 2 workers have "
            "registered; server 1 and workers 0 to 1 missing (workers register when they have read "
            "their data): see the logs of these, and start the job again");
}

TEST(CoordinatorTest, TheDeadlineForRegisteringIsNoneOfTheTraining) {
  ScriptedJob job;
  job.StartTraining();
  job.PassTime(absl::Seconds(600), {Server(0), Server(1), Worker(0), Worker(1)});
  EXPECT_EQ(job.View().phase(), v1::TRAINING);
}

TEST(CoordinatorTest, WaitsForEverWithoutADeadlineForRegistering) {
  v1::JobSpec spec = ScriptedJob::Job();
  spec.mutable_membership()->set_registration_seconds(0);
  ScriptedJob job(spec);
  job.clock().Advance(absl::Hours(1000));
  EXPECT_EQ(job.View().phase(), v1::REGISTERING);
}

TEST(CoordinatorTest, PlacesShardsWhenEverybodyHasRegistered) {
  ScriptedJob job;
  job.RegisterAll();
  const v1::GetStatusReply status = job.Status();
  EXPECT_EQ(status.view().phase(), v1::PLACING);
  EXPECT_EQ(status.view().epoch(), 1u);
  EXPECT_THAT(status.view().server_of_shard(), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(status.bytes_of_server(), ElementsAre(128, 128));
  ASSERT_EQ(status.view().tables_size(), 1);
  EXPECT_EQ(status.view().tables(0).name(), "w");
  EXPECT_EQ(status.view().servers(1).address(), "host:4567");
  EXPECT_EQ(status.view().workers(1).incarnation(), ScriptedJob::IncarnationOf(Worker(1)));
  EXPECT_EQ(status.job_name(), "scripted");
}

TEST(CoordinatorTest, TrainsWhenEveryServerHasActedOnThePlacement) {
  ScriptedJob job;
  job.RegisterAll();
  const uint64_t placed = job.View().version();
  job.Heartbeat(Server(0), placed);
  job.Heartbeat(Server(1), placed - 1);
  EXPECT_EQ(job.View().phase(), v1::PLACING);
  job.Heartbeat(Server(1), placed);
  EXPECT_EQ(job.View().phase(), v1::TRAINING);
  EXPECT_EQ(job.View().version(), placed + 1);
}

TEST(CoordinatorTest, EvaluatesWhenEveryWorkerHasDoneItsSteps) {
  ScriptedJob job;
  job.StartTraining();
  job.FinishSteps(1);
  job.FinishSteps(0, /*steps=*/0);  // Does not know its number of steps yet.
  EXPECT_EQ(job.View().phase(), v1::TRAINING);
  job.FinishSteps(0);
  EXPECT_EQ(job.View().phase(), v1::EVALUATING);
  EXPECT_EQ(job.View().evaluator(), 0u);
  EXPECT_EQ(job.Status().progress(1).steps_done(), 5);
}

TEST(CoordinatorTest, IgnoresProgressThatArrivesLate) {
  ScriptedJob job;
  job.StartTraining();
  job.FinishSteps(0, /*steps=*/5);
  job.FinishSteps(0, /*steps=*/4);
  EXPECT_EQ(job.Status().progress(0).steps_done(), 5);
}

TEST(CoordinatorTest, IsDoneWhenTheEvaluatorReports) {
  ScriptedJob job;
  job.StartTraining();
  EXPECT_EQ(job.ReportResult(0).code(), absl::StatusCode::kFailedPrecondition);
  job.FinishSteps(0);
  job.FinishSteps(1);
  EXPECT_EQ(job.ReportResult(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(job.ReportResult(0).ok());
  EXPECT_EQ(job.View().phase(), v1::DONE);
  EXPECT_TRUE(job.ReportResult(0).ok()) << "a retry";
}

TEST(CoordinatorTest, NothingChangesAfterTheEnd) {
  ScriptedJob job;
  job.StartTraining();
  ASSERT_TRUE(job.ReportFailure(Worker(1), "disk\nfull").ok());
  const v1::JobView end = job.View();
  EXPECT_EQ(end.phase(), v1::FAILED);
  EXPECT_EQ(end.reason(), "worker 1: disk full");
  EXPECT_TRUE(job.ReportFailure(Worker(0), "other").ok());
  EXPECT_EQ(job.ReportResult(0).code(), absl::StatusCode::kFailedPrecondition);
  job.FinishSteps(0);
  job.coordinator().Fail("interrupted");
  job.clock().Advance(absl::Hours(1));
  EXPECT_EQ(job.View().SerializeAsString(), end.SerializeAsString());
}

TEST(CoordinatorTest, RefusesNewMembersAfterTheEnd) {
  ScriptedJob job;
  job.coordinator().Fail("interrupted");
  EXPECT_THAT(ErrorOf(job.RegisterWorker(1).status(), absl::StatusCode::kFailedPrecondition),
              HasSubstr("the job has ended already (interrupted)"));
}

TEST(CoordinatorTest, RefusesReportsOfStrangers) {
  ScriptedJob job;
  EXPECT_EQ(job.ReportFailure(Worker(0), "x").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(job.ReportResult(0).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(job.View().phase(), v1::REGISTERING);
}

}  // namespace
}  // namespace capstan
