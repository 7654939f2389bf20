#include "deploy/launch/member_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "common/base/real_clock.h"
#include "deploy/launch/fake_job_run.h"
#include "deploy/launch/fake_programs.h"
#include "deploy/launch/local_job.h"
#include "deploy/launch/progress_display.h"
#include "deploy/launch/restart_plan.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

bool Never() { return false; }

// Runs one server and one worker of a job. Their programs are scripts.
class FakeMembers {
 public:
  explicit FakeMembers(const std::string& name) : programs_("member_runner_" + name) {
    Members(FakePrograms::kRunForever);
    std::filesystem::create_directories(programs_.Path("run"));
  }

  void Members(const std::string& script) {
    programs_.Write("capstan_server", script);
    programs_.Write("capstan_worker", script);
  }

  // Asks `get_status` with the number of the question, from 1.
  absl::Status Result(const std::function<absl::StatusOr<v1::GetStatusReply>(int)>& get_status,
                      const std::function<bool()>& take_interrupt = &Never) {
    LocalJob::Options job_options;
    job_options.server_program = programs_.Path("capstan_server");
    job_options.worker_program = programs_.Path("capstan_worker");
    job_options.run_dir = programs_.Path("run");
    job_options.has_all_members = false;
    job_options.program.command = worker_command;
    LocalJob job(job_options);
    RealClock clock;
    ProgressDisplay display({&out, [] { return std::nullopt; }, v1::ClusterSpec()});
    MemberRunner::Options options;
    options.job = &job;
    options.coordinator = "127.0.0.1:1";
    options.get_status = [&] { return get_status(++questions); };
    options.report_early_failure = [this](v1::HeartbeatRequest::Role, const std::string& reason) {
      reported = reason;
      return absl::OkStatus();
    };
    options.restarts = restarts;
    options.take_interrupt = take_interrupt;
    options.display = &display;
    options.clock = &clock;
    options.poll_interval = absl::Milliseconds(2);
    options.status_interval = absl::Milliseconds(20);
    options.end_timeout = end_timeout;
    options.server_patience = absl::Milliseconds(50);
    const absl::Status result = MemberRunner(options).Run();
    EXPECT_FALSE(job.HasRunning());
    return result;
  }

  void Server(const std::string& script) { programs_.Write("capstan_server", script); }
  void Worker(const std::string& script) { programs_.Write("capstan_worker", script); }
  std::string Path(const std::string& file) const { return programs_.Path(file); }

  absl::Duration end_timeout = absl::Milliseconds(200);
  std::string worker_command;  // of a program in the place of capstan_worker; empty: none
  RestartPlan* restarts = nullptr;
  int questions = 0;
  std::string reported;
  std::ostringstream out;

 private:
  FakePrograms programs_;
};

TEST(MemberRunnerTest, JobSucceedsInPhaseDone) {
  FakeMembers members("done");
  members.Members("exit 0");
  const absl::Status result = members.Result([](int) { return InPhase(v1::DONE); });
  EXPECT_TRUE(result.ok()) << result;
}

TEST(MemberRunnerTest, MembersThatDoNotEndAfterTheJobAreKilled) {
  FakeMembers members("killed");
  const absl::Status result = members.Result([](int) { return InPhase(v1::DONE); });
  EXPECT_TRUE(result.ok()) << result;
}

TEST(MemberRunnerTest, FailedJobGivesTheCoordinatorsReason) {
  FakeMembers members("failed");
  members.Members("exit 1");
  const absl::Status result =
      members.Result([](int) { return InPhase(v1::FAILED, "server 1 is silent"); });
  EXPECT_EQ(result, absl::AbortedError("the job failed: server 1 is silent"));
}

TEST(MemberRunnerTest, VanishedCoordinatorAndLostMembersFailWithTheFirstLoss) {
  FakeMembers members("vanished");
  members.Members("echo 'nobody answers'; exit 1");
  const absl::Status result = members.Result(
      [](int) -> absl::StatusOr<v1::GetStatusReply> { return absl::UnavailableError("gone"); });
  EXPECT_EQ(result.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(result.message(), HasSubstr("ended (exit code 1): nobody answers"));
}

TEST(MemberRunnerTest, MemberWithAGoodEndProvesTheEndOfAVanishedCoordinator) {
  FakeMembers members("good_end");
  members.Members("exit 0");
  const absl::Status result = members.Result(
      [](int) -> absl::StatusOr<v1::GetStatusReply> { return absl::UnavailableError("gone"); });
  EXPECT_TRUE(result.ok()) << result;
}

TEST(MemberRunnerTest, JobGoesOnElsewhereAfterTheLossOfAllMembersHere) {
  FakeMembers members("elsewhere");
  members.Members("echo 'no memory'; exit 1");
  const absl::Status result = members.Result([&](int question) {
    const bool has_told = absl::StrContains(members.out.str(), "no memory");
    return InPhase(has_told && question >= 50 ? v1::DONE : v1::TRAINING);
  });
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_GE(members.questions, 50);
}

TEST(MemberRunnerTest, ProgramThatEndsBeforeItJoinsIsReported) {
  FakeMembers members("early");
  members.worker_command = "echo 'no data'; exit 3";
  const absl::Status result = members.Result([&](int) {
    return members.reported.empty() ? InPhase(v1::REGISTERING)
                                    : InPhase(v1::FAILED, members.reported);
  });
  EXPECT_EQ(members.reported,
            "worker-0 ended (exit code 3) before the job had all its members: no data");
  EXPECT_EQ(result.message(), "the job failed: " + members.reported);
  EXPECT_THAT(members.out.str(), HasSubstr("worker-0 | no data\n"));
}

TEST(MemberRunnerTest, ProgramThatEndsInTheMiddleIsNoGoodEnd) {
  FakeMembers members("middle");
  members.worker_command = "exit 0";
  const absl::Status result = members.Result([&](int) {
    const bool has_told = absl::StrContains(members.out.str(), "worker-0 ended (exit code 0)");
    return has_told ? InPhase(v1::FAILED, "a worker is silent") : InPhase(v1::TRAINING);
  });
  EXPECT_EQ(result.message(), "the job failed: a worker is silent");
  EXPECT_EQ(members.reported, "") << "the job has begun";
}

TEST(MemberRunnerTest, AProgramMayTakeLongAfterTheJobIsDoneAndThenFailTheRun) {
  FakeMembers members("late");
  members.Members("exit 0");
  members.worker_command = "sleep 0.5; echo 'disk full'; exit 4";  // the others have 0.2 s
  const absl::Status result = members.Result([](int) { return InPhase(v1::DONE); });
  EXPECT_EQ(result.message(), "after the job was done, worker-0 ended (exit code 4): disk full");
}

TEST(MemberRunnerTest, AProgramThatHasLeftTheJobMayEndLateWithAnyCode) {
  FakeMembers members("left");
  members.Members("exit 0");
  members.worker_command = "exit 143";
  absl::StatusOr<v1::GetStatusReply> done = InPhase(v1::DONE);
  done->mutable_view()->add_workers()->set_is_live(false);
  const absl::Status result = members.Result([&done](int) { return done; });
  EXPECT_TRUE(result.ok()) << result;
}

// Trains under BSP, as one of a job's machines does with --restart. The worker is live, or its
// place is held.
v1::GetStatusReply Training(bool is_live) {
  v1::GetStatusReply status = *InPhase(v1::TRAINING);
  v1::JobView& view = *status.mutable_view();
  view.set_holds_places(true);
  view.add_consistency()->mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  v1::WorkerInfo& worker = *view.add_workers();
  worker.set_is_live(is_live);
  worker.set_holds_place(!is_live);
  status.add_progress();
  return status;
}

RestartPlan ReplacingPlan(int most = RestartPlan::kNoLimit) {
  RestartPlan::Options options;
  options.most = most;
  options.only_replaces = true;
  return RestartPlan::Create(options).value();
}

TEST(MemberRunnerTest, AnotherWorkerTakesThePlaceOfALostOneOfThisMachine) {
  FakeMembers members("replaced");
  RestartPlan plan = ReplacingPlan();
  members.restarts = &plan;
  members.Worker("echo $@ >>" + members.Path("starts") + "; [ $(wc -l <" + members.Path("starts") +
                 ") -ge 2 ] && exec sleep 1000; kill -KILL $$");
  const absl::Status result = members.Result([&](int) -> absl::StatusOr<v1::GetStatusReply> {
    std::ifstream starts(members.Path("starts"));
    std::string first, second;
    if (!std::getline(starts, first) || !std::getline(starts, second)) return Training(true);
    EXPECT_THAT(second, HasSubstr("--rank=0"));
    return InPhase(v1::DONE);
  });
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(members.out.str(), HasSubstr("worker-0 ended (killed by signal 9): "));
  EXPECT_THAT(members.out.str(), HasSubstr("; another takes its place\n"));
  EXPECT_EQ(plan.CountsText(), "1 worker replaced");
}

TEST(MemberRunnerTest, ALostWorkerIsReplacedOnceTheCoordinatorAnswersAgain) {
  FakeMembers members("replaced_later");
  RestartPlan plan = ReplacingPlan();
  members.restarts = &plan;
  members.Worker("echo >>" + members.Path("starts") + "; [ $(wc -l <" + members.Path("starts") +
                 ") -ge 2 ] && exec sleep 1000; kill -KILL $$");
  int failures = 0;
  const absl::Status result = members.Result([&](int) -> absl::StatusOr<v1::GetStatusReply> {
    if (absl::StrContains(members.out.str(), "; another takes its place")) return InPhase(v1::DONE);
    std::ifstream starts(members.Path("starts"));
    if (std::string line; !std::getline(starts, line)) return Training(true);
    if (failures++ < 2) return absl::UnavailableError("the network is down");
    return Training(true);
  });
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_GE(failures, 2);
  EXPECT_EQ(plan.CountsText(), "1 worker replaced");
}

TEST(MemberRunnerTest, ALostWorkerIsNamedIfTheCoordinatorNeverAnswersAgain) {
  FakeMembers members("never_judged");
  RestartPlan plan = ReplacingPlan();
  members.restarts = &plan;
  members.Members("echo 'nobody answers'; exit 1");
  const absl::Status result =
      members.Result([](int) { return absl::UnavailableError("the network is down"); });
  EXPECT_THAT(result.message(), HasSubstr("ended (exit code 1): nobody answers"));
}

TEST(MemberRunnerTest, ALostWorkerThatRunsOnIsKilledAndReplaced) {
  FakeMembers members("silent");
  RestartPlan plan = ReplacingPlan();
  members.restarts = &plan;
  const absl::Status result = members.Result([&](int) -> absl::StatusOr<v1::GetStatusReply> {
    if (absl::StrContains(members.out.str(), "; another takes its place")) return InPhase(v1::DONE);
    return Training(/*is_live=*/false);
  });
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(members.out.str(),
              HasSubstr("worker-0 is lost to the job, but runs: it is killed\n"));
}

// A job with copies. Its server here has this address.
v1::GetStatusReply TrainingWithCopies(bool is_live, const std::string& address = "host:1") {
  v1::GetStatusReply status = *InPhase(v1::TRAINING);
  status.mutable_view()->add_copies();
  v1::ServerInfo& server = *status.mutable_view()->add_servers();
  server.set_address(address);
  server.set_is_live(is_live);
  return status;
}

RestartPlan PlanForServers() {
  RestartPlan::Options options;
  options.only_servers = true;
  return RestartPlan::Create(options).value();
}

// A server's script: the first one registers and ends so, the second one runs on.
std::string FirstServerEnds(const FakeMembers& members, const std::string& end) {
  return "echo >>" + members.Path("starts") + "; [ $(wc -l <" + members.Path("starts") +
         ") -ge 2 ] && exec sleep 1000; echo 'I20260101 00:00:00 1 f.cc:1] registered as server 0 "
         "at host:1'; " +
         end;
}

TEST(MemberRunnerTest, AnotherServerIsStartedInALostOnesPlaceOnceTheCoordinatorKnows) {
  FakeMembers members("server_replaced");
  RestartPlan plan = PlanForServers();
  members.restarts = &plan;
  members.Server(FirstServerEnds(members, "touch " + members.Path("end") + "; kill -KILL $$"));
  int questions_after_end = 0;
  const absl::Status result = members.Result([&](int) -> absl::StatusOr<v1::GetStatusReply> {
    if (absl::StrContains(members.out.str(), "another one is started")) return InPhase(v1::DONE);
    if (std::filesystem::exists(members.Path("end"))) ++questions_after_end;
    if (questions_after_end == 3) return absl::UnavailableError("the network is down");
    return TrainingWithCopies(/*is_live=*/questions_after_end < 6);
  });
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_GE(questions_after_end, 6);
  EXPECT_THAT(members.out.str(),
              HasSubstr("server-0 ended (killed by signal 9): no error in its log; other servers "
                        "have its shards, and another one is started in its place\n"));
  EXPECT_EQ(plan.CountsText(), "1 server replaced");
}

TEST(MemberRunnerTest, AStoppedServerThatIsLostIsKilledAndReplaced) {
  FakeMembers members("server_silent");
  RestartPlan plan = PlanForServers();
  members.restarts = &plan;
  members.Server(FirstServerEnds(members, "exec sleep 1000"));
  const absl::Status result = members.Result([&](int) -> absl::StatusOr<v1::GetStatusReply> {
    if (absl::StrContains(members.out.str(), "another one is started")) return InPhase(v1::DONE);
    return TrainingWithCopies(/*is_live=*/false);
  });
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(members.out.str(),
              HasSubstr("server-0 is lost to the job, but runs: it is killed\n"));
}

TEST(MemberRunnerTest, TheGoodEndOfAServerWithCopiesIsThatOfTheJob) {
  FakeMembers members("server_good_end");
  members.Members("exit 0");
  const absl::Status result =
      members.Result([](int question) -> absl::StatusOr<v1::GetStatusReply> {
        if (question == 1) return TrainingWithCopies(/*is_live=*/true);
        return absl::UnavailableError("gone");
      });
  EXPECT_TRUE(result.ok()) << result;
}

TEST(MemberRunnerTest, AServerThatHasNotComeDoesNotDelayTheEnd) {
  FakeMembers members("server_late");
  RestartPlan plan = PlanForServers();
  members.restarts = &plan;
  members.end_timeout = absl::Seconds(60);
  members.Server(FirstServerEnds(members, "kill -KILL $$"));
  members.Worker("until [ -e " + members.Path("end") + " ]; do sleep 0.01; done");
  const absl::Time begin = absl::Now();
  const absl::Status result = members.Result([&](int) -> absl::StatusOr<v1::GetStatusReply> {
    if (!absl::StrContains(members.out.str(), "another one is started")) {
      return TrainingWithCopies(/*is_live=*/false);
    }
    std::ofstream(members.Path("end")) << "yes";
    return InPhase(v1::DONE);
  });
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
}

TEST(MemberRunnerTest, AWorkerThatMayNotBeReplacedAgainEndsTheRun) {
  FakeMembers members("given_up");
  RestartPlan plan = ReplacingPlan(/*most=*/1);
  members.restarts = &plan;
  members.Worker("echo 'no memory'; exit 1");
  const absl::Status result = members.Result([](int) { return Training(true); });
  EXPECT_EQ(result.message(),
            "worker-0 ended (exit code 1): no memory; 1 worker replaced; no restart: "
            "--restart=on_failure:1 allows no more");
}

TEST(MemberRunnerTest, InterruptEndsTheMembers) {
  FakeMembers members("interrupt");
  const absl::Status result = members.Result([](int) { return InPhase(v1::TRAINING); },
                                             [&] { return members.questions >= 3; });
  EXPECT_EQ(result.code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace capstan
