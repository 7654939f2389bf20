// The programs as a user starts them by hand: a good end, and every way of losing a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/job_processes.h"
#include "tests/process/at_rest.h"
#include "tests/process/tcp_ports.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Whoever still waits then waits for ever.
constexpr absl::Duration kPatience = absl::Seconds(100);

const std::vector<std::string> kQuickLease = {"--lease_seconds=1.5", "--heartbeat_seconds=0.2",
                                              "--rpc_deadline_seconds=8"};

std::vector<std::string> Flags(std::vector<std::string> flags) {
  flags.insert(flags.end(), kQuickLease.begin(), kQuickLease.end());
  return flags;
}

class ProcessTest : public testing::Test {
 protected:
  ProcessTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }
  nlohmann::json Summary() {
    return nlohmann::json::parse(ReadFile(processes_->path("summary.json")));
  }
  void WaitForTraining(const std::string& worker) {
    ASSERT_TRUE(processes_->WaitForLog(worker, "] training", kPatience));
  }
  // Waits until the coordinator knows of a step of worker 0.
  void WaitForAStep() {
    ASSERT_TRUE(processes_->WaitUntil(kPatience, [this] {
      processes_->Start("status", "deploy/cli/capstan",
                        {"status", "--coordinator=" + processes_->coordinator_address()});
      EXPECT_TRUE(processes_->WaitForExit("status", kPatience).ok()) << processes_->Log("status");
      return testing::Matches(testing::ContainsRegex("worker-0 +step +[1-9]"))(
          processes_->Log("status"));
    }));
  }
  // Expects an end with an error, and `text` in its last line.
  void ExpectFailure(const std::string& name, const std::string& text, int code = 1) {
    const ChildExit exit = processes_->WaitForExit(name, kPatience);
    EXPECT_EQ(exit.code, code) << name << ": " << exit.ToString();
    EXPECT_NE(processes_->LastLine(name).find(text), std::string::npos)
        << name << " said: " << processes_->LastLine(name);
  }

  std::unique_ptr<JobProcesses> processes_;
};

// The parameter is the transport.
class ProcessDeathTest : public ProcessTest, public testing::WithParamInterface<const char*> {
 protected:
  void StartCoordinator(std::vector<std::string> flags) {
    flags.push_back(absl::StrCat("--transport=", GetParam()));
    processes_->StartCoordinator(Flags(std::move(flags)));
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, ProcessDeathTest, testing::Values("grpc", "ucx"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(ProcessTest, AJobStartedByHandReachesItsAccuracyAndEveryProcessEndsWell) {
  for (const std::string consistency : {"bsp", "ssp", "async"}) {
    SCOPED_TRACE(consistency);
    processes_ = nullptr;
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
    std::vector<std::string> flags = {"--consistency=" + consistency, "--hidden=128,64"};
    if (consistency == "ssp") flags.push_back("--staleness=2");
    processes_->StartCoordinator(Flags(std::move(flags)));
    processes_->StartMembers(/*num_servers=*/2, /*num_workers=*/2);
    for (const std::string name : {"worker-0", "worker-1", "server-0", "server-1", "coordinator"}) {
      const ChildExit exit = processes_->WaitForExit(name, kPatience);
      EXPECT_TRUE(exit.ok()) << name << ": " << exit.ToString() << "\n" << processes_->Log(name);
    }
    const nlohmann::json summary = Summary();
    EXPECT_GE(summary["test_accuracy"].get<double>(), 0.95);
    EXPECT_EQ(summary["workers_lost"], 0);
    if (consistency != "async") {
      EXPECT_LE(summary["max_staleness_seen"], consistency == "ssp" ? 2 : 0);
    }
  }
}

TEST_F(ProcessTest, ByDefaultNothingListensBeyondThisMachine) {
  processes_->StartCoordinator(Flags({"--transport=grpc", "--epochs=100000"}));
  processes_->StartMembers(/*num_servers=*/2, /*num_workers=*/2);
  WaitForTraining("worker-0");
  for (const char* const name : {"coordinator", "server-0", "server-1"}) {
    // 127.0.0.1, with its bytes in the host's order. A mapped IPv6 address has the same end.
    EXPECT_THAT(ListeningTcpAddresses(processes_->pid(name)), ElementsAre(HasSubstr("0100007F:")))
        << name;
  }
  EXPECT_TRUE(ListeningTcpAddresses(processes_->pid("worker-0")).empty());
}

// These bytes end a process of UCX 1.13 if they reach UCX's own ports: a message for its connection
// manager with an impossible length, and one for its TCP transport without a connection request.
const std::string kStrangersBytes[] = {
    std::string(16, '\xff'),
    std::string("\x78\x56\x34\x12\xbe\xba\xfe\xca", 8) + std::string(64, '\xff'),
};

TEST_P(ProcessDeathTest, AStrangerFindsOnePortOfAServerAndNoneOfAWorkerAndHarmsNothing) {
  StartCoordinator({"--num_servers=1", "--epochs=100000"});
  processes_->StartMembers(/*num_servers=*/1, /*num_workers=*/2);
  WaitForTraining("worker-1");
  EXPECT_EQ(ListeningTcpAddresses(processes_->pid("server-0")).size(), 1u);
  EXPECT_EQ(ListeningTcpAddresses(processes_->pid("worker-0")).size(), 0u);
  for (const std::string name : {"server-0", "worker-0"}) {
    for (const std::string& address : ListeningTcpAddresses(processes_->pid(name))) {
      for (const std::string& bytes : kStrangersBytes) {
        EXPECT_TRUE(SendToTcpPort(TcpPortOf(address), bytes, /*seconds=*/1))
            << name << " listens no more";
      }
    }
  }
  const std::vector<std::string> members = {"worker-0", "worker-1", "server-0"};
  for (const std::string& name : members) processes_->Signal(name, SIGKILL);
  // A process ended by the stranger has another exit than SIGKILL.
  for (const std::string& name : members) {
    const ChildExit exit = processes_->WaitForExit(name, kPatience);
    EXPECT_EQ(exit.signal, SIGKILL) << name << ": " << exit.ToString() << processes_->Log(name);
  }
}

TEST_P(ProcessDeathTest, TheOthersGoOnAfterTheLeaseOfAKilledWorker) {
  StartCoordinator({"--steps=4000"});
  processes_->StartMembers(/*num_servers=*/2, /*num_workers=*/2);
  WaitForTraining("worker-1");
  // If worker 1 were killed while it writes into UCX's shared memory, it would block all others:
  // see the limits in common/transport/README.md. With worker 0 stopped, worker 1 waits at the end
  // of its BSP step, and the servers wait, too: then it writes nothing.
  const bool kills_at_rest = GetParam() == std::string("ucx");
  if (kills_at_rest) {
    processes_->Signal("worker-0", SIGSTOP);
    const std::vector<pid_t> others = {processes_->pid("worker-1"), processes_->pid("server-0"),
                                       processes_->pid("server-1")};
    ASSERT_TRUE(processes_->WaitUntil(kPatience, [&] { return WereAtRest(others); }));
  }
  processes_->Signal("worker-1", SIGKILL);
  if (kills_at_rest) processes_->Signal("worker-0", SIGCONT);
  for (const std::string name : {"worker-0", "server-0", "server-1", "coordinator"}) {
    const ChildExit exit = processes_->WaitForExit(name, kPatience);
    EXPECT_TRUE(exit.ok()) << name << ": " << exit.ToString() << "\n" << processes_->Log(name);
  }
  const nlohmann::json summary = Summary();
  EXPECT_EQ(summary["workers_lost"], 1);
  EXPECT_EQ(summary["steps"], 4000);
  EXPECT_GE(summary["test_accuracy"].get<double>(), 0.9);
}

TEST_P(ProcessDeathTest, AKilledServerEndsTheJobEverywhereAndIsNamed) {
  StartCoordinator({"--steps=1000000"});
  processes_->StartMembers(/*num_servers=*/2, /*num_workers=*/2);
  WaitForTraining("worker-1");
  processes_->Signal("server-1", SIGKILL);
  for (const std::string name : {"worker-0", "worker-1", "server-0", "coordinator"}) {
    ExpectFailure(name, "server 1 (127.0.0.1:");
  }
}

TEST_P(ProcessDeathTest, AStoppedServerEndsTheJobEverywhereToo) {
  StartCoordinator({"--steps=1000000"});
  processes_->StartMembers(/*num_servers=*/2, /*num_workers=*/2);
  WaitForTraining("worker-1");
  processes_->Signal("server-0", SIGSTOP);
  for (const std::string name : {"worker-0", "worker-1", "server-1", "coordinator"}) {
    ExpectFailure(name, "server 0 (127.0.0.1:");
  }
  // It learns of it when it wakes.
  processes_->Signal("server-0", SIGCONT);
  EXPECT_EQ(processes_->WaitForExit("server-0", kPatience).code, 1);
}

TEST_P(ProcessDeathTest, AWorkerThatWasDeclaredDeadIsToldSo) {
  StartCoordinator({"--num_servers=1", "--steps=1000000"});
  processes_->StartMembers(/*num_servers=*/1, /*num_workers=*/2);
  WaitForTraining("worker-1");
  processes_->Signal("worker-1", SIGSTOP);
  ASSERT_TRUE(processes_->WaitForLog("coordinator", "worker 1 has been silent", kPatience))
      << processes_->Log("coordinator");
  processes_->Signal("worker-1", SIGCONT);
  const ChildExit exit = processes_->WaitForExit("worker-1", kPatience);
  EXPECT_EQ(exit.code, 1);
  EXPECT_NE(processes_->LastLine("worker-1").find("declared dead"), std::string::npos)
      << processes_->LastLine("worker-1");
}

TEST_P(ProcessDeathTest, AKilledCoordinatorEndsEveryProcess) {
  StartCoordinator({"--steps=1000000"});
  processes_->StartMembers(/*num_servers=*/2, /*num_workers=*/2);
  WaitForTraining("worker-1");
  processes_->Signal("coordinator", SIGKILL);
  for (const std::string name : {"worker-0", "worker-1", "server-0", "server-1"}) {
    ExpectFailure(name, "coordinator " + processes_->coordinator_address());
  }
}

TEST_F(ProcessTest, AStoppedCoordinatorEndsEveryProcess) {
  processes_->StartCoordinator(Flags({"--num_servers=1", "--num_workers=1", "--steps=1000000"}));
  processes_->StartMembers(/*num_servers=*/1, /*num_workers=*/1);
  WaitForTraining("worker-0");
  processes_->Signal("coordinator", SIGSTOP);
  // As --rpc_deadline_seconds=4 says.
  for (const std::string name : {"worker-0", "server-0"}) {
    ExpectFailure(name, "has been unreachable for 4 s");
  }
}

TEST_F(ProcessTest, MembersThatAreAskedToEndDoNotWaitForALostCoordinator) {
  processes_->StartCoordinator(Flags({"--num_servers=1", "--num_workers=1", "--steps=1000000"}));
  // At the first address there is nobody.
  const std::string address = "127.0.0.1:1," + processes_->coordinator_address();
  const std::vector<std::string> flags = {"--coordinator=" + address,
                                          "--rpc_deadline_seconds=3600"};
  processes_->Start("server-0", "server/capstan_server", flags);
  processes_->Start("worker-0", "worker/capstan_worker", flags);
  WaitForTraining("worker-0");
  processes_->Signal("coordinator", SIGKILL);
  processes_->Signal("worker-0", SIGTERM);
  ExpectFailure("worker-0", "was asked to end", /*code=*/143);
  processes_->Signal("server-0", SIGTERM);
  ExpectFailure("server-0", "coordinator " + address + " has been unreachable for",
                /*code=*/143);
}

TEST_F(ProcessTest, AnyOtherSignalLeavesTheCoordinatorInterruptible) {
  processes_->StartCoordinator(Flags({}));
  processes_->Signal("coordinator", SIGUSR1);
  processes_->Signal("coordinator", SIGTERM);
  ExpectFailure("coordinator", "interrupted by SIGTERM", /*code=*/143);
}

TEST_F(ProcessTest, AnInterruptedCoordinatorEndsTheJobWithAReason) {
  processes_->StartCoordinator(Flags({"--num_servers=1", "--steps=1000000"}));
  processes_->StartMembers(/*num_servers=*/1, /*num_workers=*/2);
  WaitForTraining("worker-1");
  WaitForAStep();
  processes_->Signal("coordinator", SIGINT);
  ExpectFailure("coordinator", "interrupted by SIGINT");
  for (const std::string name : {"worker-0", "worker-1", "server-0"}) {
    ExpectFailure(name, "interrupted by SIGINT");
  }
  const nlohmann::json summary = Summary();
  EXPECT_EQ(summary["outcome"], "interrupted");
  EXPECT_EQ(summary["reason"], "interrupted by SIGINT");
  EXPECT_EQ(summary["transport"], "grpc");
  ASSERT_EQ(summary["devices"].size(), 2u);
  for (const nlohmann::json& device : summary["devices"]) {
    EXPECT_THAT(device.get<std::string>(), testing::MatchesRegex("cpu \\(.+, OpenBLAS .+\\)"));
  }
  EXPECT_GT(summary["steps"].get<int64_t>(), 0);
}

TEST_F(ProcessTest, AKilledRunLeavesNoProcessBehind) {
  const std::string run_dir = processes_->path("run");
  processes_->Start("run", "deploy/cli/capstan",
                    {"run", "--run_dir=" + run_dir, "--steps=1000000"});
  const auto log_has = [&](const std::string& log, const std::string& text) {
    return processes_->WaitUntil(
        kPatience, [&] { return ReadFile(run_dir + "/" + log).find(text) != std::string::npos; });
  };
  ASSERT_TRUE(log_has("worker-1.log", "] training")) << processes_->Log("run");
  // All processes of the run are children of one pid. The kernel ends them by signal 9.
  const std::string children_file =
      absl::StrCat("/proc/", processes_->pid("run"), "/task/", processes_->pid("run"), "/children");
  std::istringstream children(ReadFile(children_file));
  std::vector<int> pids;
  for (int pid; children >> pid;) pids.push_back(pid);
  ASSERT_EQ(pids.size(), 5) << "coordinator, 2 servers, 2 workers";
  processes_->Signal("run", SIGKILL);
  for (const int pid : pids) {
    EXPECT_TRUE(processes_->WaitUntil(kPatience, [pid] {
      // Gone, or a zombie until init reaps it.
      const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
      return stat.empty() || stat.find(") Z ") != std::string::npos;
    })) << pid;
  }
}

TEST_F(ProcessTest, AnInterruptedRunEndsItsProcesses) {
  const std::string run_dir = processes_->path("run");
  processes_->Start("run", "deploy/cli/capstan",
                    {"run", "--run_dir=" + run_dir, "--steps=1000000"});
  ASSERT_TRUE(processes_->WaitUntil(kPatience, [&] {
    return ReadFile(run_dir + "/worker-1.log").find("] training") != std::string::npos;
  }));
  processes_->Signal("run", SIGINT);
  EXPECT_EQ(processes_->WaitForExit("run", kPatience).code, 130);
}

}  // namespace
}  // namespace capstan
