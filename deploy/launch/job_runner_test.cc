#include "deploy/launch/job_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/base/fake_clock.h"
#include "common/base/mutex.h"
#include "deploy/launch/fake_job_run.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JobRunnerTest, JobSucceedsWhenTheCoordinatorEndsWell) {
  FakeJobRun run("succeeds");
  run.Coordinator("exit 0");
  const absl::Status result = run.Result();
  EXPECT_TRUE(result.ok()) << result;
}

TEST(JobRunnerTest, CoordinatorThatCannotStartSaysWhy) {
  FakeJobRun run("coordinator_fails");
  run.programs().Write("capstan_coordinator",
                       "echo 'capstan_coordinator: port 80 is taken'; exit 1");
  EXPECT_EQ(run.Result().message(),
            "coordinator ended (exit code 1): capstan_coordinator: port 80 is taken");
}

TEST(JobRunnerTest, MembersAreStartedInTheOrderOfTheirIds) {
  FakeJobRun run("order");
  run.status = InPhase(v1::REGISTERING);
  run.Coordinator(WaitForFile(run.programs(), "run/worker-1.log") + "sleep 0.1");
  const absl::Status result = run.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run.registered, ElementsAre("server-0", "worker-0", "worker-1"));
}

TEST(JobRunnerTest, NextMemberWaitsUntilTheOneBeforeHasRegistered) {
  FakeJobRun run("waits");
  run.status = InPhase(v1::REGISTERING);
  run.never_registers = "worker-0";
  run.interrupt_after = 30;
  EXPECT_EQ(run.Result().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(run.registered, ElementsAre("server-0"));
}

TEST(JobRunnerTest, ServerThatEndsBeforeItRegistersFailsTheJobAtOnce) {
  FakeJobRun run("server_fails");
  run.status = InPhase(v1::REGISTERING);
  run.never_registers = "server-0";
  run.programs().Write("capstan_server", "echo 'no port'; exit 1");
  EXPECT_EQ(run.Result().message(), "server-0 ended (exit code 1): no port");
}

TEST(JobRunnerTest, WorkerThatEndsBeforeTrainingFailsTheJobAtOnce) {
  FakeJobRun run("worker_fails");
  run.status = InPhase(v1::REGISTERING);
  run.programs().Write("capstan_worker", "echo 'cannot read train.csv'; exit 1");
  EXPECT_THAT(std::string(run.Result().message()),
              AllOf(HasSubstr("worker-"), HasSubstr("ended (exit code 1): cannot read train.csv")));
}

TEST(JobRunnerTest, WorkerLostInTrainingIsReportedAndTheOthersGoOn) {
  FakeJobRun run("worker_lost");
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
  FakeJobRun run("all_lost");
  run.status = InPhase(v1::TRAINING);
  run.programs().Write("capstan_worker", "kill -9 $$");
  EXPECT_THAT(std::string(run.Result().message()), HasSubstr("it was the last one"));
}

// A coordinator that ends well when there is `file`, by default when all programs have started, and
// programs that end a little later with `last_words`.
void EndWellBefore(FakeJobRun& run, const std::string& last_words,
                   const std::string& file = "run/worker-1.log") {
  run.Coordinator(WaitForFile(run.programs(), file) + "touch " + run.programs().Path("done"));
  run.worker_command = WaitForFile(run.programs(), "done") + "sleep 0.3\n" + last_words;
}

TEST(JobRunnerTest, ProgramsStartTogetherBecauseTheyMayNeedEachOther) {
  FakeJobRun run("programs");
  run.status = InPhase(v1::REGISTERING);
  run.never_registers = "worker-0";
  EndWellBefore(run, "echo rank $RANK of $WORLD_SIZE");
  const absl::Status result = run.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(run.Log("worker-0"), "rank 0 of 2\n");
  EXPECT_EQ(run.Log("worker-1"), "rank 1 of 2\n");
}

TEST(JobRunnerTest, ProgramThatFailsBeforeItJoinsFailsTheJobAtOnceWithTheEndOfItsLog) {
  FakeJobRun run("program_fails");
  run.status = InPhase(v1::REGISTERING);
  run.worker_command = "[ $RANK = 0 ] || exec sleep 1000\necho Traceback; echo 'no data'; exit 3";
  EXPECT_EQ(run.Result().message(),
            "worker-0 ended (exit code 3) before the job had all its members: no data");
  EXPECT_THAT(run.out.str(), HasSubstr("worker-0 | Traceback\nworker-0 | no data\n"));
}

TEST(JobRunnerTest, ProgramThatDoesNotJoinIsToldHowAlsoWithExitCode0) {
  FakeJobRun run("never_joins");
  run.status = InPhase(v1::REGISTERING);
  run.worker_command = "[ $RANK = 0 ] || exec sleep 1000";
  EXPECT_THAT(std::string(run.Result().message()),
              HasSubstr("worker-0 ended (exit code 0) before the job had all its members: expected "
                        "a program that joins (capstan_start)"));
}

TEST(JobRunnerTest, ProgramThatEndsInTheMiddleIsLostAlsoWithExitCode0) {
  FakeJobRun run("program_leaves");
  run.status = InPhase(v1::TRAINING);
  run.worker_command = WaitForFile(run.programs(), "run/worker-1.log") +
                       "[ $RANK = 1 ] || exit 0\n" + WaitForFile(run.programs(), "reported") +
                       "sleep 0.3";
  run.Coordinator(WaitForFile(run.programs(), "reported"));
  const absl::Status result = run.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run.out.str(), HasSubstr("worker-0 ended (exit code 0): no error in its log; the "
                                       "others go on\n"));
}

TEST(JobRunnerTest, ProgramThatFailsAfterTheJobIsDoneFailsTheRun) {
  FakeJobRun run("late_failure");
  run.status = InPhase(v1::TRAINING);
  EndWellBefore(run, "echo 'disk full'; exit $((4 * RANK))");
  EXPECT_EQ(run.Result().message(),
            "after the job was done, worker-1 ended (exit code 4): disk full");
  EXPECT_THAT(run.out.str(), HasSubstr("worker-1 | disk full\n"));
}

TEST(JobRunnerTest, ProgramThatHasLeftTheJobMayEndLateWithAnyCode) {
  FakeJobRun run("left");
  run.status = InPhase(v1::TRAINING);
  run.has_left = "worker-1";
  EndWellBefore(run, "echo 'cleans up'; exit $((143 * RANK))", FakeJobRun::kLeftFile);
  const absl::Status result = run.Result();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(run.out.str(), HasSubstr("worker-1 ended (exit code 143): cleans up; it had left the "
                                       "job before the end\n"));
}

TEST(JobRunnerTest, ACoordinatorThatDoesNotListenIsNamedAndNotWaitedForForEver) {
  FakeJobRun run("no_port_file");
  run.programs().Write("capstan_coordinator", "exec sleep 1000");
  run.start_timeout = absl::Milliseconds(100);
  EXPECT_THAT(std::string(run.Result().message()),
              HasSubstr("the coordinator has not begun to listen for 100ms: "));
}

TEST(JobRunnerTest, TheProgramForWhichTheJobWaitedInVainIsNamed) {
  FakeJobRun run("vain");
  run.status = InPhase(v1::REGISTERING);
  run.never_registers = "worker-1";
  run.worker_command = "exec sleep 1000";
  run.Coordinator(WaitForFile(run.programs(), "run/worker-1.log") +
                  "sleep 0.3; echo 'after 1 s (--registration_seconds) 1 of 2 workers'; exit 1");
  EXPECT_THAT(std::string(run.Result().message()),
              AllOf(HasSubstr("1 of 2 workers; the program of worker-1 runs, but has not joined")));
}

TEST(JobRunnerTest, InterruptEndsAllProcesses) {
  FakeJobRun run("interrupt");
  run.status = InPhase(v1::TRAINING);
  run.interrupt_after = 3;
  EXPECT_EQ(run.Result(), absl::CancelledError("interrupted"));
}

TEST(JobRunnerTest, InterruptIsToldToTheCoordinatorWhichTellsTheMembers) {
  FakeJobRun run("told");
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

TEST(JobRunnerTest, ACoordinatorThatWaitsForMembersThatHaveEndedDoesNotDelayAnInterrupt) {
  FakeJobRun run("waits_alone");
  run.status = InPhase(v1::TRAINING);
  run.interrupt_after = 100;
  run.failure_timeout = absl::Seconds(60);
  run.Coordinator("trap 'touch " + run.programs().Path("told") +
                  "' TERM\nwhile true; do sleep 0.01; done");
  run.programs().Write("capstan_server", WaitForFile(run.programs(), "told"));
  run.programs().Write("capstan_worker", WaitForFile(run.programs(), "told"));
  const absl::Time begin = absl::Now();
  EXPECT_EQ(run.Result(), absl::CancelledError("interrupted"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
}

TEST(JobRunnerTest, InterruptBeforeTheCoordinatorListensKillsItAtOnce) {
  FakeJobRun run("early");
  run.interrupt_after = 0;
  run.failure_timeout = absl::InfiniteDuration();
  run.programs().Write("capstan_coordinator", "trap '' TERM\nwhile true; do sleep 1000; done");
  EXPECT_EQ(run.Result(), absl::CancelledError("interrupted"));
}

TEST(JobRunnerTest, ProcessThatIgnoresTheEndIsKilled) {
  FakeJobRun run("ignores");
  run.status = InPhase(v1::TRAINING);
  run.programs().Write("capstan_worker", "trap '' TERM\ntouch " + run.programs().Path("ready") +
                                             "\nwhile true; do sleep 1000; done");
  run.Coordinator(WaitForFile(run.programs(), "ready") + "echo 'lost server-0'; exit 1");
  EXPECT_EQ(run.Result().message(), "coordinator ended (exit code 1): lost server-0");
}

TEST(JobRunnerTest, CoordinatorThatAnswersOnAfterAFailureIsEnded) {
  FakeJobRun run("answers_on");
  run.end_timeout = absl::InfiniteDuration();
  run.status = InPhase(v1::FAILED, "a worker failed");
  run.programs().Write("capstan_coordinator",
                       std::string("trap 'echo a worker failed; exit 1' TERM\n") +
                           FakePrograms::kListen + "\nwhile true; do sleep 0.01; done");
  EXPECT_EQ(run.Result().message(), "coordinator ended (exit code 1): a worker failed");
}

// A coordinator that answers after a failure until it is told to end.
void AnswerOn(FakeJobRun& run) {
  run.programs().Write("capstan_coordinator", std::string("trap 'echo no data; exit 1' TERM\n") +
                                                  FakePrograms::kListen +
                                                  "\nwhile true; do sleep 0.01; done");
}

// Goes on to the end of each wait at once.
class SkippingClock : public FakeClock {
 public:
  bool WaitUntil(Mutex&, CondVar&, absl::Time deadline) override {
    Advance(deadline - Now());
    return false;
  }
};

TEST(JobRunnerTest, CoordinatorStaysForMachinesThatComeLateAfterAFailure) {
  SkippingClock clock;
  FakeJobRun run("late");
  run.clock = &clock;
  run.has_all_members = false;
  run.late_timeout = absl::Seconds(10);
  run.end_timeout = absl::InfiniteDuration();
  AnswerOn(run);
  std::optional<absl::Time> failed;
  absl::Time last;
  run.answer = [&] {
    last = clock.Now();
    if (!failed.has_value()) failed = last;
    return InPhase(v1::FAILED, "no data");
  };
  EXPECT_EQ(run.Result().message(), "coordinator ended (exit code 1): no data");
  EXPECT_GE(last - *failed, absl::Seconds(10));
  EXPECT_THAT(run.out.str(), HasSubstr("the job failed: no data; the coordinator stays for 10s"));
}

TEST(JobRunnerTest, MemberThatEndsBeforeItRegistersIsReportedForMachinesThatComeLate) {
  FakeJobRun run("reported_early");
  run.has_all_members = false;
  run.late_timeout = absl::Milliseconds(10);
  run.end_timeout = absl::InfiniteDuration();
  run.status = InPhase(v1::REGISTERING);
  run.never_registers = "server-0";
  run.programs().Write("capstan_server", "echo 'no memory'; kill -9 $$");
  AnswerOn(run);
  std::string reported;
  run.report_early_failure = [&](v1::HeartbeatRequest::Role role, const std::string& reason) {
    EXPECT_EQ(role, v1::HeartbeatRequest::SERVER);
    reported = reason;
    run.status = InPhase(v1::FAILED, reason);
    return absl::OkStatus();
  };
  EXPECT_EQ(run.Result().message(), "coordinator ended (exit code 1): no data");
  EXPECT_EQ(reported, "server-0 ended (killed by signal 9): no memory");
  EXPECT_THAT(run.out.str(), HasSubstr("the job failed: " + reported));
}

TEST(JobRunnerTest, MemberThatEndsEarlyFailsTheJobAtOnceIfTheCoordinatorDoesNotTakeTheReport) {
  FakeJobRun run("not_reported");
  run.has_all_members = false;
  run.status = InPhase(v1::REGISTERING);
  run.never_registers = "server-0";
  run.programs().Write("capstan_server", "echo 'no memory'; exit 1");
  run.report_early_failure = [](v1::HeartbeatRequest::Role, const std::string&) {
    return absl::UnavailableError("nobody answers");
  };
  EXPECT_EQ(run.Result().message(), "server-0 ended (exit code 1): no memory");
}

TEST(JobRunnerTest, CoordinatorDoesNotStayIfAllMembersHadRegistered) {
  FakeJobRun run("all_came");
  run.end_timeout = absl::InfiniteDuration();
  run.has_all_members = false;
  AnswerOn(run);
  run.status = InPhase(v1::FAILED, "no data");
  run.status->mutable_view()->set_epoch(1);
  EXPECT_EQ(run.Result().message(), "coordinator ended (exit code 1): no data");
}

TEST(JobRunnerTest, InterruptEndsACoordinatorThatStays) {
  FakeJobRun run("stay_interrupted");
  run.has_all_members = false;
  AnswerOn(run);
  run.status = InPhase(v1::FAILED, "no data");
  run.interrupt_after = 20;
  EXPECT_EQ(run.Result(), absl::CancelledError("interrupted"));
}

TEST(JobRunnerTest, CoordinatorThatStaysAfterTheEndIsAFailureWithTheReason) {
  FakeJobRun run("stays");
  run.status = InPhase(v1::FAILED, "worker-1: no memory");
  run.programs().Write(
      "capstan_coordinator",
      std::string("trap '' TERM\n") + FakePrograms::kListen + "\nwhile true; do sleep 1000; done");
  const absl::Status result = run.Result();
  EXPECT_EQ(result.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(result.message()), HasSubstr("worker-1: no memory"));
}

TEST(JobRunnerTest, SilentCoordinatorAfterTheLossOfAMemberIsNotWaitedForForever) {
  FakeJobRun run("silent");
  run.status = absl::UnavailableError("nobody answers");
  run.programs().Write("capstan_server", "echo 'no port'; exit 1");
  const absl::Status result = run.Result();
  EXPECT_EQ(result.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(result.message()), HasSubstr("server-0 ended (exit code 1): no port"));
}

}  // namespace
}  // namespace capstan
