// `capstan run --worker_command`: workers that are programs of the user's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kPatience = absl::Seconds(60);

constexpr char kTrain[] =
    "PYTHONPATH=worker/python/site exec python3 -B tests/integration/linear_regression.py ";

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() {
    std::string folder = testing::TempDir() + "/program-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  void StartRun(const std::string& command, std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "--num_servers=1", "--run_dir=" + path("run-dir"),
                                 "--worker_command=" + command});
    processes_->Start("run", "deploy/cli/capstan", flags);
  }
  int WaitForCode() { return processes_->WaitForExit("run", kPatience).code; }
  std::string Output() const { return processes_->Log("run"); }
  std::string WorkerLog(int worker) const {
    return ReadFile(absl::StrCat(path("run-dir/worker-"), worker, ".log"));
  }
  std::string path(const std::string& file) const { return processes_->path(file); }
  nlohmann::json Summary() const {
    return nlohmann::json::parse(ReadFile(path("run-dir/summary.json")), nullptr,
                                 /*allow_exceptions=*/false);
  }

  // Trains with two workers and checkpoints, and kills worker 1 once there is one. In the middle
  // the job waits for the next worker 1. The result must be good.
  void TrainWithALoss(std::vector<std::string> flags) {
    flags.insert(flags.end(),
                 {"--num_workers=2", "--checkpoint_dir=" + path("saved"), "--checkpoint_steps=40",
                  "--restart=on_failure", "--lease_seconds=1.5", "--heartbeat_seconds=0.2"});
    StartRun("echo $$ >" + path("pid-$RANK") + "; " + kTrain +
                 "--steps=200 --wait_for=" + path("goes-on"),
             flags);
    ASSERT_TRUE(processes_->WaitForLog("run", "training", kPatience)) << Output();
    ASSERT_TRUE(processes_->WaitUntil(kPatience, [this] {
      return absl::StrContains(ReadFile(path("run-dir/coordinator.log")), " is complete");
    })) << Output();
    kill(std::stoi(ReadFile(path("pid-1"))), SIGKILL);
    ASSERT_TRUE(processes_->WaitUntil(kPatience, [this] {
      const std::vector<std::string> parts = absl::StrSplit(WorkerLog(1), "joined as worker 1");
      return parts.size() == 3;
    })) << Output();
    std::ofstream(path("goes-on")) << "\n";
    EXPECT_EQ(WaitForCode(), 0) << Output();
    EXPECT_LT(Summary()["test_loss"].get<double>(), 0.001) << Output();
  }

  // A command with a process of its own, two levels below the shell: waits for it for ever.
  std::string WithGrandchild() const {
    return absl::StrCat("sh -c 'echo $$ >", path("pid.new"), "; mv ", path("pid.new"), " ",
                        path("pid"), "; exec sleep 1000'; true");
  }
  void WaitForGrandchild() {
    ASSERT_TRUE(
        processes_->WaitUntil(kPatience, [this] { return !ReadFile(path("pid")).empty(); }));
  }
  void ExpectGrandchildEnds() {
    const pid_t pid = std::stoi(ReadFile(path("pid")));
    EXPECT_TRUE(processes_->WaitUntil(absl::Seconds(10),
                                      [pid] { return kill(pid, 0) != 0 && errno == ESRCH; }));
  }

  std::unique_ptr<JobProcesses> processes_;
};

TEST_F(ProgramTest, EachWorkerFindsItsPlaceInTheEnvironmentAndAFailureEndsTheRun) {
  const std::string ready = path("ready-");
  StartRun(
      "echo rank $RANK, local $LOCAL_RANK of $LOCAL_WORLD_SIZE, world $WORLD_SIZE; "
      "echo ${CAPSTAN_COORDINATOR}, keys ${CAPSTAN_KEYS-none}; touch " +
          ready +
          "$RANK; "
          "until [ -e " +
          ready + "0 ] && [ -e " + ready + "1 ] && [ -e " + ready +
          "2 ]; "
          "do sleep 0.05; done; [ $RANK = 1 ] || exec sleep 1000; echo no data >&2; exit 3",
      {"--num_workers=3"});
  EXPECT_EQ(WaitForCode(), 1);
  const std::string address = ReadFile(path("run-dir/coordinator.port"));
  for (int worker = 0; worker < 3; ++worker) {
    EXPECT_THAT(WorkerLog(worker),
                HasSubstr(absl::StrCat("rank ", worker, ", local ", worker, " of 3, world 3\n",
                                       address.substr(0, address.find('\n')), ", keys none\n")));
  }
  EXPECT_THAT(Output(), AllOf(HasSubstr("worker-1 | no data\n"),
                              HasSubstr("capstan run: worker-1 ended (exit code 3) before the job "
                                        "had all its members: no data; logs in ")));
}

TEST_F(ProgramTest, AProgramTrainsAndTellsWhatItKnows) {
  StartRun(kTrain, {"--num_workers=2", "--output=" + path("model.safetensors")});
  EXPECT_EQ(WaitForCode(), 0) << Output() << WorkerLog(0);
  const nlohmann::json summary = Summary();
  EXPECT_EQ(summary["outcome"], "finished");
  EXPECT_EQ(summary["model"], "program");
  EXPECT_EQ(summary["steps"], 100);
  EXPECT_EQ(summary["samples"], 3200);
  EXPECT_LT(summary["test_loss"].get<double>(), 0.001);
  EXPECT_FALSE(summary.contains("test_accuracy"));
  EXPECT_FALSE(summary.contains("warning")) << summary["warning"];
  EXPECT_THAT(Output(), AllOf(HasSubstr("  model              program\n"), HasSubstr("  test loss"),
                              Not(HasSubstr("accuracy"))));
  EXPECT_THAT(WorkerLog(1), HasSubstr("joined as worker 1\n"));
  const std::string model = ReadFile(path("model.safetensors"));
  EXPECT_THAT(model,
              AllOf(HasSubstr("test_loss"), Not(HasSubstr("test_accuracy")), HasSubstr("weights")));
}

TEST_F(ProgramTest, ProgressHasNoTotalUntilTheProgramTellsIt) {
  StartRun(std::string(kTrain) + "--unknown_steps --step_seconds=0.03",
           {"--num_workers=1", "--heartbeat_seconds=0.1"});
  EXPECT_EQ(WaitForCode(), 0) << Output() << WorkerLog(0);
  EXPECT_THAT(Output(), ::testing::ContainsRegex("training, step [0-9]+, loss"));
  EXPECT_THAT(Output(), ::testing::ContainsRegex("worker-0  step +[0-9]+  +0 behind loss"));
  EXPECT_EQ(Summary()["steps"], 100);
}

TEST_F(ProgramTest, AKilledProgramIsReplacedByAnotherOneOfItsRank) {
  TrainWithALoss({"--consistency=ssp", "--staleness=2"});
  EXPECT_THAT(Output(), HasSubstr("worker-1 ended (killed by signal 9): "));
  EXPECT_THAT(Output(), HasSubstr("; another takes its place"));
  EXPECT_EQ(Summary()["workers_replaced"], 1);
  EXPECT_THAT(WorkerLog(1), HasSubstr("---- capstan run starts worker-1 again ----\n"
                                      "joined as worker 1\n"));
}

TEST_F(ProgramTest, UnderBspAllGoOnFromACheckpointAfterTheLossOfAProgram) {
  TrainWithALoss({});
  EXPECT_THAT(Output(), HasSubstr("; restart 1 from step "));
  EXPECT_EQ(Summary()["steps"], 200);
}

TEST_F(ProgramTest, AProgramThatFailsAfterTheJobIsDoneFailsTheRun) {
  StartRun(std::string(kTrain) + "--steps=5 --fail_after", {"--num_workers=2"});
  EXPECT_EQ(WaitForCode(), 1);
  EXPECT_THAT(Output(), HasSubstr("capstan run: after the job was done, worker-1 ended (exit code "
                                  "1): linear_regression: the disk is full; logs in "));
  EXPECT_EQ(Summary()["outcome"], "finished");
}

TEST_F(ProgramTest, AProgramThatNeverJoinsIsNamedAndEndsWithItsChildren) {
  StartRun(WithGrandchild(), {"--num_workers=1", "--registration_seconds=1"});
  EXPECT_EQ(WaitForCode(), 1);
  EXPECT_THAT(Output(), AllOf(HasSubstr("--registration_seconds"),
                              HasSubstr("; the program of worker-0 runs, but has not joined")));
  ExpectGrandchildEnds();
}

TEST_F(ProgramTest, AnInterruptEndsTheChildrenOfAProgram) {
  StartRun(WithGrandchild(), {"--num_workers=1"});
  WaitForGrandchild();
  processes_->Signal("run", SIGINT);
  EXPECT_EQ(WaitForCode(), 130);
  ExpectGrandchildEnds();
}

TEST_F(ProgramTest, TheChildrenOfAProgramEndWhenCapstanRunIsKilled) {
  StartRun(WithGrandchild(), {"--num_workers=1"});
  WaitForGrandchild();
  processes_->Signal("run", SIGKILL);
  processes_->WaitForExit("run", kPatience);
  ExpectGrandchildEnds();
}

TEST_F(ProgramTest, TheRunSaysWhereItsCoordinatorListensAndStatusFindsItThereAndByTheFolder) {
  StartRun(WithGrandchild(), {"--num_workers=1"});
  WaitForGrandchild();
  ASSERT_TRUE(processes_->WaitForLog("run", "; capstan status ", kPatience)) << Output();
  const std::string address = ReadFile(path("run-dir/coordinator.port"));
  const std::string flag = absl::StrCat("--coordinator=", absl::StripSuffix(address, "\n"));
  EXPECT_THAT(Output(), HasSubstr(absl::StrCat("coordinator: ", absl::StripSuffix(address, "\n"),
                                               "; capstan status ", flag, "\n")));
  for (const std::string& place : {flag, path("run-dir")}) {
    processes_->Start("status", "deploy/cli/capstan", {"status", place});
    EXPECT_EQ(processes_->WaitForExit("status", kPatience).code, 0) << place;
    EXPECT_THAT(processes_->Log("status"), HasSubstr("waiting for members"));
  }
}

TEST_F(ProgramTest, CapstanWorkerRefusesAJobForProgramsAndDoesNotEndIt) {
  processes_->StartCoordinator({"--model=program"});
  processes_->Start("worker", "worker/capstan_worker",
                    {"--coordinator=" + processes_->coordinator_address()});
  EXPECT_EQ(processes_->WaitForExit("worker", kPatience).code, 2);
  EXPECT_THAT(processes_->LastLine("worker"),
              AllOf(HasSubstr("programs of the user's (--model=program)"),
                    HasSubstr("--worker_command=COMMAND")));
  processes_->Start("status", "deploy/cli/capstan",
                    {"status", "--coordinator=" + processes_->coordinator_address()});
  EXPECT_EQ(processes_->WaitForExit("status", kPatience).code, 0);
  EXPECT_THAT(processes_->Log("status"), HasSubstr("waiting for members"));
}

}  // namespace
}  // namespace capstan
