// A worker is lost or leaves, and another one is started while the job trains.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

// A job with this number of steps still trains when a test has seen it train and has sent its
// signal.
constexpr int kSteps = 2000;
// Whoever still waits then waits for ever.
constexpr absl::Duration kPatience = absl::Seconds(100);

class ReplacementTest : public testing::TestWithParam<const char*> {
 protected:
  ReplacementTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
    std::filesystem::create_directory(history());
  }

  std::string history() const { return processes_->path("history"); }

  // Two servers, and two workers with recorded histories.
  void StartJob(const std::string& consistency, const std::vector<std::string>& more_flags = {}) {
    std::vector<std::string> flags = {absl::StrCat("--steps=", kSteps), "--lease_seconds=5",
                                      "--heartbeat_seconds=0.2",        "--rpc_deadline_seconds=15",
                                      "--consistency=" + consistency,   "--slice_bytes=16K"};
    if (consistency == "ssp") flags.push_back("--staleness=2");
    flags.insert(flags.end(), more_flags.begin(), more_flags.end());
    processes_->StartCoordinator(flags);
    processes_->StartMembers(/*num_servers=*/2, /*num_workers=*/0);
    for (const std::string name : {"worker-0", "worker-1"}) {
      StartWorker(name);
      ASSERT_TRUE(processes_->WaitForLog(name, "registered as worker", kPatience));
    }
    ASSERT_TRUE(processes_->WaitForLog("worker-1", "] training", kPatience));
    AwaitExchanges(/*worker_processes=*/2);
  }
  // Waits until this number of worker processes have an exchange in their history. A history
  // without one is shorter than kHeaderBytes.
  void AwaitExchanges(int worker_processes) {
    constexpr uintmax_t kHeaderBytes = 1000;
    ASSERT_TRUE(processes_->WaitUntil(kPatience, [&] {
      int found = 0;
      for (const auto& file : std::filesystem::directory_iterator(history())) {
        found += file.file_size() > kHeaderBytes ? 1 : 0;
      }
      return found >= worker_processes;
    }));
  }
  void StartWorker(const std::string& name) {
    processes_->Start(
        name, "worker/capstan_worker",
        {"--coordinator=" + processes_->coordinator_address(), "--record_history=" + history()});
  }
  // In the coordinator's log.
  void ExpectReplaced(int worker) {
    const std::string name = absl::StrCat("worker ", worker);
    const std::string text = absl::StrCat(
        name, std::string(GetParam()) == "bsp" ? " was lost at step " : " enters at step ");
    EXPECT_NE(processes_->Log("coordinator").find(text), std::string::npos)
        << processes_->Log("coordinator");
  }
  void ExpectGoodEnd(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const ChildExit exit = processes_->WaitForExit(name, kPatience);
      EXPECT_TRUE(exit.ok()) << name << ": " << exit.ToString() << "\n" << processes_->Log(name);
    }
  }
  void ExpectSummary(int lost, int replaced) {
    const auto summary = nlohmann::json::parse(ReadFile(processes_->path("summary.json")));
    EXPECT_EQ(summary["workers_lost"], lost);
    EXPECT_EQ(summary["workers_replaced"], replaced);
    EXPECT_EQ(summary["steps"], kSteps);
    EXPECT_GE(summary["test_accuracy"].get<double>(), 0.9);
  }
  // `capstan check` finds no fault in the histories of this number of worker processes.
  void ExpectContractKept(int worker_processes) {
    processes_->Start("check", "deploy/cli/capstan", {"check", history()});
    EXPECT_EQ(processes_->WaitForExit("check", kPatience).code, 0) << processes_->Log("check");
    EXPECT_NE(
        processes_->Log("check").find(absl::StrCat("by ", worker_processes, " worker processes")),
        std::string::npos)
        << processes_->Log("check");
  }

  std::unique_ptr<JobProcesses> processes_;
};

INSTANTIATE_TEST_SUITE_P(Consistencies, ReplacementTest, testing::Values("bsp", "ssp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ReplacementTest, AnotherWorkerTakesTheKilledOnesPlaceAndTheContractIsKept) {
  StartJob(GetParam());
  processes_->Signal("worker-1", SIGKILL);
  StartWorker("worker-2");
  ExpectGoodEnd({"worker-0", "worker-2", "server-0", "server-1", "coordinator"});
  EXPECT_NE(processes_->Log("worker-2").find("registered as worker 1"), std::string::npos);
  EXPECT_NE(
      processes_->Log("worker-2").find(absl::StrCat("training ", kSteps, " steps, from step ")),
      std::string::npos)
      << processes_->Log("worker-2");
  ExpectReplaced(1);
  ExpectSummary(/*lost=*/1, /*replaced=*/1);
  ExpectContractKept(/*worker_processes=*/3);
}

TEST_P(ReplacementTest, ATerminatedWorkerLeavesBetweenTwoStepsAndAnotherNeedNotWait) {
  StartJob(GetParam(), {"--lease_seconds=60", "--rpc_deadline_seconds=60"});
  processes_->Signal("worker-1", SIGTERM);
  EXPECT_EQ(processes_->WaitForExit("worker-1", kPatience).code, 143);
  EXPECT_EQ(processes_->LastLine("worker-1"),
            "capstan_worker: has left the job, as it was asked to end");
  // The job does not end before the other one has entered.
  processes_->Signal("worker-0", SIGSTOP);
  EXPECT_NE(processes_->Log("coordinator").find("worker 1 was asked to end, and has left; "),
            std::string::npos);
  StartWorker("worker-2");
  EXPECT_TRUE(processes_->WaitForLog("worker-2", "] training", kPatience));
  processes_->Signal("worker-0", SIGCONT);
  ExpectGoodEnd({"worker-0", "worker-2", "server-0", "server-1", "coordinator"});
  ExpectSummary(/*lost=*/1, /*replaced=*/1);
  ExpectContractKept(/*worker_processes=*/3);
}

TEST_F(ReplacementTest, AWorkerThatWaitsTakesThePlaceOfOneThatLeaves) {
  StartJob("bsp", {"--steps=1000000", "--lease_seconds=60", "--rpc_deadline_seconds=60"});
  StartWorker("worker-2");
  ASSERT_TRUE(processes_->WaitForLog("worker-2",
                                     "] waits up to 1m0.4s for the place of a lost worker: the job "
                                     "has its 2 workers already, and all are live",
                                     kPatience))
      << processes_->Log("worker-2");
  processes_->Signal("worker-1", SIGTERM);
  EXPECT_EQ(processes_->WaitForExit("worker-1", kPatience).code, 143);
  ASSERT_TRUE(processes_->WaitForLog("worker-2", "] training", kPatience));
  processes_->Signal("coordinator", SIGTERM);
  for (const std::string name : {"worker-0", "worker-2", "server-0", "server-1"}) {
    EXPECT_EQ(processes_->WaitForExit(name, kPatience).code, 1) << processes_->Log(name);
  }
  EXPECT_EQ(processes_->WaitForExit("coordinator", kPatience).code, 143);
  const auto summary = nlohmann::json::parse(ReadFile(processes_->path("summary.json")));
  EXPECT_EQ(summary["workers_lost"], 1);
  EXPECT_EQ(summary["workers_replaced"], 1);
  ExpectContractKept(/*worker_processes=*/3);
}

TEST_F(ReplacementTest, ATerminatedWorkerThatHasDoneItsStepsStaysToTheEnd) {
  StartJob("async", {"--lease_seconds=60", "--rpc_deadline_seconds=60"});
  processes_->Signal("worker-1", SIGSTOP);
  ASSERT_TRUE(processes_->WaitForLog("worker-0", "all steps are done", kPatience));
  processes_->Signal("worker-0", SIGTERM);
  processes_->Signal("worker-1", SIGCONT);
  ExpectGoodEnd({"worker-0", "worker-1", "server-0", "server-1", "coordinator"});
  EXPECT_EQ(processes_->Log("coordinator").find("has left"), std::string::npos);
  ExpectSummary(/*lost=*/0, /*replaced=*/0);
}

TEST_F(ReplacementTest, AJobThatStaysTrainsOnWithLaterWorkers) {
  StartJob("bsp", {"--stay", "--lease_seconds=60", "--rpc_deadline_seconds=60"});
  for (const std::string name : {"worker-0", "worker-1"}) {
    EXPECT_EQ(processes_->WaitForExit(name, kPatience).code, 0) << processes_->Log(name);
  }
  EXPECT_NE(processes_->Log("coordinator").find("the job stays, and waits for other workers"),
            std::string::npos);
  for (const std::string name : {"worker-2", "worker-3"}) StartWorker(name);
  for (const std::string name : {"worker-2", "worker-3"}) {
    EXPECT_EQ(processes_->WaitForExit(name, kPatience).code, 0) << processes_->Log(name);
    EXPECT_NE(processes_->Log(name).find(absl::StrCat("training ", 2 * kSteps, " steps, from")),
              std::string::npos)
        << processes_->Log(name);
  }
  processes_->Signal("coordinator", SIGTERM);
  EXPECT_EQ(processes_->WaitForExit("coordinator", kPatience).code, 143);
  const auto summary = nlohmann::json::parse(ReadFile(processes_->path("summary.json")));
  EXPECT_EQ(summary["outcome"], "interrupted");
  EXPECT_EQ(summary["workers_lost"], 0);
  EXPECT_EQ(summary["workers_replaced"], 0);
  ExpectContractKept(/*worker_processes=*/4);
}

TEST_F(ReplacementTest, ATerminatedServerEndsTheJobWithTheReason) {
  StartJob("bsp", {"--lease_seconds=60", "--rpc_deadline_seconds=60"});
  processes_->Signal("server-1", SIGTERM);
  EXPECT_EQ(processes_->WaitForExit("server-1", kPatience).code, 143);
  for (const std::string name : {"worker-0", "worker-1", "server-0", "coordinator"}) {
    EXPECT_EQ(processes_->WaitForExit(name, kPatience).code, 1) << name;
    EXPECT_NE(
        processes_->LastLine(name).find("server 1: was asked to end, and its shards are lost"),
        std::string::npos)
        << processes_->LastLine(name);
  }
}

// Such as Slurm and Kubernetes.
TEST_F(ReplacementTest, WhoEndsAllProcessesInterruptsTheJobAlsoIfAServerHearsOfItFirst) {
  StartJob("bsp", {"--metrics_listen=127.0.0.1:0"});  // So the coordinator answers for some time.
  processes_->Signal("server-1", SIGTERM);
  ASSERT_TRUE(
      processes_->WaitForLog("coordinator", "phase FAILED: server 1: was asked to end", kPatience));
  processes_->Signal("coordinator", SIGTERM);
  EXPECT_EQ(processes_->WaitForExit("coordinator", kPatience).code, 143);
  const auto summary = nlohmann::json::parse(ReadFile(processes_->path("summary.json")));
  EXPECT_EQ(summary["outcome"], "interrupted");
}

TEST_F(ReplacementTest, AProcessOutsideTheJobEndsAtOnceWhenItIsTerminated) {
  for (const std::string name : {"server", "worker"}) {
    processes_->Start(name, name + "/capstan_" + name,
                      {"--coordinator=127.0.0.1:1", "--health_listen=127.0.0.1:0",
                       "--rpc_deadline_seconds=3600"});
    ASSERT_TRUE(processes_->WaitForLog(name, "answers probes at", kPatience));
    processes_->Signal(name, SIGTERM);
    EXPECT_EQ(processes_->WaitForExit(name, kPatience).code, 143);
  }
}

TEST_F(ReplacementTest, AReplacedWorkerBeginsWithoutResidualsAndTheJobEndsWell) {
  StartJob("bsp", {"--push_codec=topk:0.05", "--pull_codec=bfloat16"});
  processes_->Signal("worker-1", SIGKILL);
  StartWorker("worker-2");
  ExpectGoodEnd({"worker-0", "worker-2", "server-0", "server-1", "coordinator"});
  ExpectSummary(/*lost=*/1, /*replaced=*/1);
  ExpectContractKept(/*worker_processes=*/3);
}

TEST_F(ReplacementTest, TheWorkerThatTookAnothersPlaceEvaluatesAndMayBeReplacedItself) {
  StartJob("bsp");
  processes_->Signal("worker-0", SIGKILL);
  StartWorker("worker-2");
  AwaitExchanges(/*worker_processes=*/3);
  processes_->Signal("worker-2", SIGKILL);
  StartWorker("worker-3");
  ExpectGoodEnd({"worker-1", "worker-3", "server-0", "server-1", "coordinator"});
  EXPECT_NE(processes_->Log("worker-3").find("] evaluating"), std::string::npos)
      << "it is the first worker";
  ExpectSummary(/*lost=*/2, /*replaced=*/2);
  ExpectContractKept(/*worker_processes=*/4);
}

TEST_F(ReplacementTest, AStoppedWorkerThatWasReplacedEndsWhenItWakesAndHarmsNothing) {
  StartJob("ssp");
  processes_->Signal("worker-1", SIGSTOP);
  StartWorker("worker-2");
  ASSERT_TRUE(processes_->WaitForLog("worker-2", "] training", kPatience));
  processes_->Signal("worker-1", SIGCONT);
  EXPECT_EQ(processes_->WaitForExit("worker-1", kPatience).code, 1);
  ExpectGoodEnd({"worker-0", "worker-2", "server-0", "server-1", "coordinator"});
  ExpectSummary(/*lost=*/1, /*replaced=*/1);
  ExpectContractKept(/*worker_processes=*/3);
}

TEST_F(ReplacementTest, AWorkerTooManySaysSoWhenNoLeaseHasRunOut) {
  StartJob("bsp", {"--steps=1000000"});
  StartWorker("worker-2");
  EXPECT_EQ(processes_->WaitForExit("worker-2", kPatience).code, 1);
  EXPECT_NE(processes_->Log("worker-2").find("] waits up to 5.4s for the place of a lost worker"),
            std::string::npos)
      << processes_->Log("worker-2");
  EXPECT_NE(processes_->LastLine("worker-2")
                .find("has waited 5.4 s for the place of a lost worker; its lease would have run "
                      "out by now: the job has its 2 workers already, and all are live"),
            std::string::npos)
      << processes_->LastLine("worker-2");
  processes_->Signal("coordinator", SIGTERM);
  for (const std::string name : {"worker-0", "worker-1", "server-0", "server-1"}) {
    EXPECT_EQ(processes_->WaitForExit(name, kPatience).code, 1) << processes_->Log(name);
  }
  EXPECT_EQ(processes_->WaitForExit("coordinator", kPatience).code, 143);
  const auto summary = nlohmann::json::parse(ReadFile(processes_->path("summary.json")));
  EXPECT_EQ(summary["workers_lost"], 0);
  EXPECT_EQ(summary["workers_replaced"], 0);
  ExpectContractKept(/*worker_processes=*/2);
}

}  // namespace
}  // namespace capstan
