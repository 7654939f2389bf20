// `capstan run --replicas=2` whose servers are lost while the job trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Whoever still waits then waits for ever.
constexpr absl::Duration kPatience = absl::Seconds(120);

class ServerLossTest : public testing::Test {
 protected:
  ServerLossTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  std::string RunDir(const std::string& name) const { return processes_->path(name + "-dir"); }
  std::string CoordinatorLog() const { return ReadFile(RunDir("run") + "/coordinator.log"); }

  // Starts the digits job under `name`.
  void Start(const std::string& name, std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "--job=deploy/jobs/digits.textproto",
                                 "--run_dir=" + RunDir(name), "--heartbeat_seconds=0.2"});
    processes_->Start(name, "deploy/cli/capstan", flags);
  }
  // The same with copies, under "run", and waits until all shards have two.
  void StartWithCopies(std::vector<std::string> flags) {
    flags.push_back("--replicas=2");
    Start("run", flags);
    ASSERT_TRUE(WaitForCopies(/*times=*/1)) << processes_->Log("run");
  }
  // All shards have had two copies for so many times.
  bool WaitForCopies(int times) {
    return processes_->WaitUntil(kPatience, [&] {
      int found = 0;
      const std::string log = CoordinatorLog();
      const std::string text = "all 64 shards have two equal copies";
      for (size_t at = log.find(text); at != log.npos; at = log.find(text, at + 1)) ++found;
      return found >= times;
    });
  }
  void ExpectGoodEnd(const std::string& name) {
    const ChildExit exit = processes_->WaitForExit(name, kPatience);
    EXPECT_TRUE(exit.ok()) << exit.ToString() << "\n" << processes_->Log(name);
  }
  nlohmann::json Summary(const std::string& name) const {
    return nlohmann::json::parse(ReadFile(RunDir(name) + "/summary.json"), nullptr,
                                 /*allow_exceptions=*/false);
  }

  std::vector<pid_t> Members(const std::string& program) {
    return processes_->ChildrenOf("run", program);
  }

  std::unique_ptr<JobProcesses> processes_;
};

TEST_F(ServerLossTest, AJobWhoseServersAreLostEndsWithTheBitsOfAnUndisturbedOne) {
  Start("undisturbed", {"--steps=6000"});
  ExpectGoodEnd("undisturbed");
  // Nobody else is silent for as long, also on a busy machine.
  StartWithCopies({"--steps=6000", "--lease_seconds=4"});
  const std::vector<pid_t> workers = Members("capstan_worker");
  int losses = 0;
  for (const int signal : {SIGKILL, SIGTERM, SIGSTOP}) {
    const std::vector<pid_t> servers = Members("capstan_server");
    ASSERT_EQ(servers.size(), 2) << processes_->Log("run");
    ASSERT_EQ(kill(servers[0], signal), 0);
    ++losses;
    ASSERT_TRUE(WaitForCopies(1 + losses)) << processes_->Log("run") << CoordinatorLog();
  }
  EXPECT_EQ(Members("capstan_worker"), workers);
  ExpectGoodEnd("run");
  EXPECT_THAT(
      processes_->Log("run"),
      AllOf(
          HasSubstr("server-0 ended (killed by signal 9): no error in its log; other servers have "
                    "its shards, and another one is started in its place\n"),
          HasSubstr("was asked to end, and has left: other servers have its shards; other"),
          HasSubstr(" is lost to the job, but runs: it is killed\n"),
          HasSubstr("\n3 servers replaced\njob digits is done: "),
          HasSubstr("\n3 servers were lost and replaced; nothing was lost\n")));
  const nlohmann::json summary = Summary("run");
  ASSERT_TRUE(summary.contains("parameters_xxh3"));
  EXPECT_EQ(summary["parameters_xxh3"], Summary("undisturbed")["parameters_xxh3"]);
  EXPECT_EQ(summary["test_accuracy"], Summary("undisturbed")["test_accuracy"]);
  EXPECT_EQ(summary["workers_lost"], 0);
}

TEST_F(ServerLossTest, WithRestartNeverTheJobGoesOnWithOneCopy) {
  StartWithCopies({"--steps=4000", "--restart=never"});
  ASSERT_EQ(kill(Members("capstan_server").at(1), SIGKILL), 0);
  ExpectGoodEnd("run");
  EXPECT_THAT(
      processes_->Log("run"),
      AllOf(HasSubstr("and no other one is started: --restart=never\n"),
            HasSubstr("\n1 server was lost; nothing was lost; one copy is left of 64 shards"),
            Not(HasSubstr("replaced\n"))));
}

// The coordinator does not yet know that a server is gone, or another one has not come.
TEST_F(ServerLossTest, AnInterruptEndsAJobAtOnceThatHasJustLostAServer) {
  StartWithCopies({"--epochs=100000"});
  ASSERT_EQ(kill(Members("capstan_server").at(0), SIGKILL), 0);
  const absl::Time begin = absl::Now();
  ASSERT_EQ(kill(processes_->pid("run"), SIGINT), 0);
  EXPECT_EQ(processes_->WaitForExit("run", kPatience).code, 130) << processes_->Log("run");
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
}

}  // namespace
}  // namespace capstan
