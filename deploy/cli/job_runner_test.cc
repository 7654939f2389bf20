#include "deploy/cli/job_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "common/base/real_clock.h"
#include "deploy/cli/fake_programs.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Runs a job of one server and two workers whose programs are scripts.
class JobRun {
 public:
  explicit JobRun(const std::string& name) : programs_(name) {
    Coordinator(FakePrograms::kRunForever);
    programs_.Write("capstan_server", FakePrograms::kRunForever);
    programs_.Write("capstan_worker", FakePrograms::kRunForever);
    std::filesystem::create_directories(programs_.Path("run"));
  }

  // What the coordinator does once it listens.
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
      return status;
    };
    options.take_interrupt = [this] { return questions >= interrupt_after; };
    options.display = &display;
    options.clock = &clock;
    options.poll_interval = absl::Milliseconds(2);
    options.status_interval = absl::Milliseconds(2);
    options.end_timeout = absl::Milliseconds(200);
    const absl::Status result = JobRunner(options).Run();
    EXPECT_FALSE(job.HasRunning());
    return result;
  }

  absl::StatusOr<v1::GetStatusReply> status = v1::GetStatusReply();
  int interrupt_after = 1'000'000;  // answers
  int questions = 0;
  std::ostringstream out;

 private:
  FakePrograms programs_;
};

absl::StatusOr<v1::GetStatusReply> InPhase(v1::Phase phase, const std::string& reason = "") {
  v1::GetStatusReply status;
  status.mutable_view()->set_phase(phase);
  status.mutable_view()->set_reason(reason);
  return status;
}

// A script that waits until `file` exists in the folder of the programs.
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
  // The first worker that makes the folder dies; the coordinator ends well once that is reported.
  run.programs().Write("capstan_worker", "mkdir " + run.programs().Path("lost") +
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

TEST(JobRunnerTest, ProcessThatIgnoresTheEndIsKilled) {
  JobRun run("ignores");
  run.status = InPhase(v1::TRAINING);
  run.programs().Write("capstan_worker", "trap '' TERM\ntouch " + run.programs().Path("ready") +
                                             "\nwhile true; do sleep 1000; done");
  run.Coordinator(WaitForFile(run.programs(), "ready") + "echo 'lost server-0'; exit 1");
  EXPECT_EQ(run.Result().message(), "coordinator ended (exit code 1): lost server-0");
}

TEST(JobRunnerTest, CoordinatorThatStaysAfterTheEndIsAFailureWithTheReason) {
  JobRun run("stays");
  run.status = InPhase(v1::FAILED, "worker-1: no memory");
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
