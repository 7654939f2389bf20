#include "deploy/cli/job/job_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/real_clock.h"
#include "deploy/cli/job/fake_programs.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Runs a job of one server and two workers. Their programs are scripts.
class JobRun {
 public:
  explicit JobRun(const std::string& name) : programs_(name) {
    Coordinator(FakePrograms::kRunForever);
    programs_.Write("capstan_server", FakePrograms::kRunForever);
    programs_.Write("capstan_worker", FakePrograms::kRunForever);
    std::filesystem::create_directories(programs_.Path("run"));
  }

  // The coordinator's script after it listens.
  void Coordinator(const std::string& script) {
    programs_.Write("capstan_coordinator", FakePrograms::kListen + std::string("\n") + script);
  }
  const FakePrograms& programs() const { return programs_; }

  absl::Status Result() {
    LocalJob::Options job_options;
    job_options.coordinator_program = programs_.Path("capstan_coordinator");
    job_options.server_program = programs_.Path("capstan_server");
    job_options.worker_program = programs_.Path("capstan_worker");
    job_options.run_dir = programs_.Path("run");
    job_options.job_file = "job.textproto";
    job_options.num_workers = 2;
    LocalJob job(job_options);
    RealClock clock;
    ProgressDisplay display({&out, [] { return std::nullopt; }, v1::ClusterSpec()});
    JobRunner::Options options;
    options.job = &job;
    options.get_status = [this](const std::string&) {
      ++questions;
      if (absl::StrContains(out.str(), "the others go on")) {
        std::ofstream(programs_.Path("reported")) << "yes";
      }
      return Registered(status);
    };
    options.take_interrupt = [this] {
      return questions >= interrupt_after && std::exchange(interrupt_after, kNever) != kNever;
    };
    options.display = &display;
    options.clock = &clock;
    options.poll_interval = absl::Milliseconds(2);
    options.status_interval = absl::Milliseconds(2);
    options.end_timeout = absl::Milliseconds(200);
    options.failure_timeout = failure_timeout;
    const absl::Status result = JobRunner(options).Run();
    EXPECT_FALSE(job.HasRunning());
    return result;
  }

  absl::StatusOr<v1::GetStatusReply> status = v1::GetStatusReply();
  absl::Duration failure_timeout = absl::Milliseconds(200);
  static constexpr int kNever = 1'000'000;
  int interrupt_after = kNever;  // answers
  std::string never_registers;
  std::vector<std::string> registered;  // in order
  int questions = 0;
  std::ostringstream out;

  std::string Log(const std::string& process) const {
    std::ostringstream text;
    text << std::ifstream(programs_.Path("run/" + process + ".log")).rdbuf();
    return text.str();
  }

 private:
  // Has the started members: those with a log. At most one registers at a time.
  absl::StatusOr<v1::GetStatusReply> Registered(absl::StatusOr<v1::GetStatusReply> reply) {
    int newcomers = 0;
    for (const std::string name : {"server-0", "worker-0", "worker-1"}) {
      if (name == never_registers ||
          !std::filesystem::exists(programs_.Path("run/" + name + ".log")))
        continue;
      if (std::find(registered.begin(), registered.end(), name) != registered.end()) continue;
      registered.push_back(name);
      ++newcomers;
    }
    EXPECT_LE(newcomers, 1);
    if (!reply.ok()) return reply;
    for (const std::string& name : registered) {
      if (name[0] == 's') {
        reply->mutable_view()->add_servers();
      } else {
        reply->mutable_view()->add_workers();
      }
    }
    return reply;
  }

  FakePrograms programs_;
};

absl::StatusOr<v1::GetStatusReply> InPhase(v1::Phase phase, const std::string& reason = "") {
  v1::GetStatusReply status;
  status.mutable_view()->set_phase(phase);
  status.mutable_view()->set_reason(reason);
  return status;
}

// A script to wait for `file` in the folder of the programs.
std::string WaitForFile(const FakePrograms& programs, const std::string& file) {
  return "until [ -e " + programs.Path(file) + " ]; do sleep 0.01; done\n";
}

TEST(JobRunnerTest, JobSucceedsWhenTheCoordinatorEndsWell) {
  JobRun run("succeeds");
  run.Coordinator("exit 0");
  const absl::Status result = run.Result();
  EXPECT_TRUE(result.ok()) << result;
}

TEST(JobRunnerTest, CoordinatorThatCannotStartSaysWhy) {
  JobRun run("coordinator_fails");
  run.programs().Write("capstan_coordinator",
                       "echo 'capstan_coordinator: port 80 is taken'; exit 1");
  EXPECT_EQ(run.Result().message(),
            "coordinator ended (exit code 1): capstan_coordinator: port 80 is taken");
}

TEST(JobRunnerTest, MembersAreStartedInTheOrderOfTheirIds) {
  JobRun run("order");
  run.status = InPhase(v1::REGISTERING);
  run.Coordinator(WaitForFile(run.programs(), "run/worker-1.log") + "sleep 0.1");
  const absl::Status result = run.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run.registered, ElementsAre("server-0", "worker-0", "worker-1"));
}

TEST(JobRunnerTest, NextMemberWaitsUntilTheOneBeforeHasRegistered) {
  JobRun run("waits");
  run.status = InPhase(v1::REGISTERING);
  run.never_registers = "worker-0";
  run.interrupt_after = 30;
  EXPECT_EQ(run.Result().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(run.registered, ElementsAre("server-0"));
}

TEST(JobRunnerTest, ServerThatEndsBeforeItRegistersFailsTheJobAtOnce) {
  JobRun run("server_fails");
  run.status = InPhase(v1::REGISTERING);
  run.never_registers = "server-0";
  run.programs().Write("capstan_server", "echo 'no port'; exit 1");
  EXPECT_EQ(run.Result().message(), "server-0 ended (exit code 1): no port");
}

TEST(JobRunnerTest, WorkerThatEndsBeforeTrainingFailsTheJobAtOnce) {
  JobRun run("worker_fails");
  run.status = InPhase(v1::REGISTERING);
  run.programs().Write("capstan_worker", "echo 'cannot read train.csv'; exit 1");
  EXPECT_THAT(std::string(run.Result().message()),
              AllOf(HasSubstr("worker-"), HasSubstr("ended (exit code 1): cannot read train.csv")));
}

TEST(JobRunnerTest, WorkerLostInTrainingIsReportedAndTheOthersGoOn) {
  JobRun run("worker_lost");
  run.status = InPhase(v1::TRAINING);
  // The first worker to make the folder dies. The coordinator ends well after the report of this.
  run.programs().Write("capstan_worker", WaitForFile(run.programs(), "run/worker-1.log") +
                                             "mkdir " + run.programs().Path("lost") +
                                             " 2>/dev/null && kill -9 $$\n" +
                                             FakePrograms::kRunForever);
  run.Coordinator(WaitForFile(run.programs(), "reported"));
  const absl::Status result = run.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run.out.str(),
              AllOf(HasSubstr("ended (killed by signal 9)"), HasSubstr("; the others go on\n")));
}

TEST(JobRunnerTest, LossOfTheLastWorkerFailsTheJob) {
  JobRun run("all_lost");
  run.status = InPhase(v1::TRAINING);
  run.programs().Write("capstan_worker", "kill -9 $$");
  EXPECT_THAT(std::string(run.Result().message()), HasSubstr("it was the last one"));
}

TEST(JobRunnerTest, InterruptEndsAllProcesses) {
  JobRun run("interrupt");
  run.status = InPhase(v1::TRAINING);
  run.interrupt_after = 3;
  EXPECT_EQ(run.Result(), absl::CancelledError("interrupted"));
}

TEST(JobRunnerTest, InterruptIsToldToTheCoordinatorWhichTellsTheMembers) {
  JobRun run("told");
  run.status = InPhase(v1::TRAINING);
  run.interrupt_after = 100;
  run.failure_timeout = absl::Seconds(20);
  const std::string told = run.programs().Path("told");
  run.Coordinator("trap 'touch " + told + "; exit 1' TERM\nwhile true; do sleep 0.01; done");
  const std::string member = "trap 'echo signalled; exit 1' TERM\n" +
                             WaitForFile(run.programs(), "told") + "echo told; exit 1";
  run.programs().Write("capstan_server", member);
  run.programs().Write("capstan_worker", member);
  EXPECT_EQ(run.Result(), absl::CancelledError("interrupted"));
  EXPECT_EQ(run.Log("server-0"), "told\n");
  EXPECT_EQ(run.Log("worker-0"), "told\n");
  EXPECT_EQ(run.Log("worker-1"), "told\n");
}

TEST(JobRunnerTest, InterruptBeforeTheCoordinatorListensKillsItAtOnce) {
  JobRun run("early");
  run.interrupt_after = 0;
  run.failure_timeout = absl::InfiniteDuration();
  run.programs().Write("capstan_coordinator", "trap '' TERM\nwhile true; do sleep 1000; done");
  EXPECT_EQ(run.Result(), absl::CancelledError("interrupted"));
}

TEST(JobRunnerTest, ProcessThatIgnoresTheEndIsKilled) {
  JobRun run("ignores");
  run.status = InPhase(v1::TRAINING);
  run.programs().Write("capstan_worker", "trap '' TERM\ntouch " + run.programs().Path("ready") +
                                             "\nwhile true; do sleep 1000; done");
  run.Coordinator(WaitForFile(run.programs(), "ready") + "echo 'lost server-0'; exit 1");
  EXPECT_EQ(run.Result().message(), "coordinator ended (exit code 1): lost server-0");
}

TEST(JobRunnerTest, CoordinatorThatAnswersOnAfterAFailureIsEnded) {
  JobRun run("answers_on");
  run.status = InPhase(v1::FAILED, "a worker failed");
  run.programs().Write("capstan_coordinator",
                       std::string("trap 'echo a worker failed; exit 1' TERM\n") +
                           FakePrograms::kListen + "\nwhile true; do sleep 0.01; done");
  EXPECT_EQ(run.Result().message(), "coordinator ended (exit code 1): a worker failed");
}

TEST(JobRunnerTest, CoordinatorThatStaysAfterTheEndIsAFailureWithTheReason) {
  JobRun run("stays");
  run.status = InPhase(v1::FAILED, "worker-1: no memory");
  run.programs().Write(
      "capstan_coordinator",
      std::string("trap '' TERM\n") + FakePrograms::kListen + "\nwhile true; do sleep 1000; done");
  const absl::Status result = run.Result();
  EXPECT_EQ(result.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(result.message()), HasSubstr("worker-1: no memory"));
}

TEST(JobRunnerTest, SilentCoordinatorAfterTheLossOfAMemberIsNotWaitedForForever) {
  JobRun run("silent");
  run.status = absl::UnavailableError("nobody answers");
  run.programs().Write("capstan_server", "echo 'no port'; exit 1");
  const absl::Status result = run.Result();
  EXPECT_EQ(result.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(result.message()), HasSubstr("server-0 ended (exit code 1): no port"));
}

}  // namespace
}  // namespace capstan
