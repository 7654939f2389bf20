// `capstan run` whose coordinator is lost while the job trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Whoever still waits then waits for ever.
constexpr absl::Duration kPatience = absl::Seconds(120);
constexpr char kGoesOn[] =
    "coordinator ended (killed by signal 9): no error in its log; another one goes on with the "
    "job\n";

class CoordinatorLossTest : public testing::Test {
 protected:
  CoordinatorLossTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  std::string RunDir(const std::string& name) const { return processes_->path(name + "-dir"); }

  // Starts the digits job under `name`.
  void Start(const std::string& name, std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "--job=deploy/jobs/digits.textproto",
                                 "--run_dir=" + RunDir(name), "--heartbeat_seconds=0.2"});
    processes_->Start(name, "deploy/cli/capstan", flags);
  }
  // The same under "run", and waits until a coordinator has kept that the job trains.
  void StartTraining(const std::vector<std::string>& flags) {
    Start("run", flags);
    ASSERT_TRUE(processes_->WaitForLog("run", "training", kPatience)) << processes_->Log("run");
  }
  // Waits until a coordinator has kept that all shards have two copies.
  void WaitForCopies() {
    const std::string address = ReadFile(RunDir("run") + "/coordinator.port");
    const std::string flag = "--coordinator=" + address.substr(0, address.find('\n'));
    ASSERT_TRUE(processes_->WaitUntil(kPatience, [&] {
      processes_->Start("status", "deploy/cli/capstan", {"status", flag});
      processes_->WaitForExit("status", kPatience);
      return absl::StrContains(processes_->Log("status"), "copies: 64 of 64 whole");
    })) << processes_->Log("status");
  }
  bool WaitForLine(const std::string& line) {
    return processes_->WaitUntil(kPatience,
                                 [&] { return CoordinatorLog().find(line) != std::string::npos; });
  }
  std::string CoordinatorLog() const { return ReadFile(RunDir("run") + "/coordinator.log"); }
  void Kill(const std::string& program) {
    const std::vector<pid_t> found = processes_->ChildrenOf("run", program);
    ASSERT_FALSE(found.empty()) << processes_->Log("run");
    ASSERT_EQ(kill(found.front(), SIGKILL), 0);
  }
  void ExpectGoodEnd(const std::string& name) {
    const ChildExit exit = processes_->WaitForExit(name, kPatience);
    EXPECT_TRUE(exit.ok()) << exit.ToString() << "\n" << processes_->Log(name);
  }
  nlohmann::json Summary(const std::string& name) const {
    return nlohmann::json::parse(ReadFile(RunDir(name) + "/summary.json"), nullptr,
                                 /*allow_exceptions=*/false);
  }
  void ExpectTheBitsOfAnUndisturbedRun() {
    const nlohmann::json summary = Summary("run");
    ASSERT_TRUE(summary.contains("parameters_xxh3"));
    EXPECT_EQ(summary["parameters_xxh3"], Summary("undisturbed")["parameters_xxh3"]);
    EXPECT_EQ(summary["test_accuracy"], Summary("undisturbed")["test_accuracy"]);
    EXPECT_EQ(summary["steps"], Summary("undisturbed")["steps"]);
    EXPECT_EQ(summary["workers_lost"], 0);
  }

  std::unique_ptr<JobProcesses> processes_;
};

TEST_F(CoordinatorLossTest, TheJobEndsWithTheBitsOfAnUndisturbedOne) {
  Start("undisturbed", {"--steps=3000"});
  ExpectGoodEnd("undisturbed");
  StartTraining({"--steps=3000", "--restart=on_failure"});
  const std::vector<pid_t> workers = processes_->ChildrenOf("run", "capstan_worker");
  Kill("capstan_coordinator");
  ASSERT_TRUE(WaitForLine("has taken over in phase TRAINING")) << processes_->Log("run");
  EXPECT_EQ(processes_->ChildrenOf("run", "capstan_worker"), workers);
  ExpectGoodEnd("run");
  EXPECT_THAT(processes_->Log("run"),
              AllOf(HasSubstr(kGoesOn), HasSubstr("\n1 coordinator replaced\njob digits is done: "),
                    Not(HasSubstr("restart 1"))));
  ExpectTheBitsOfAnUndisturbedRun();
}

TEST_F(CoordinatorLossTest, AServerThatIsLostMeanwhileIsReplaced) {
  Start("undisturbed", {"--steps=4000"});
  ExpectGoodEnd("undisturbed");
  StartTraining({"--steps=4000", "--replicas=2"});
  WaitForCopies();
  Kill("capstan_coordinator");
  Kill("capstan_server");
  ExpectGoodEnd("run");
  EXPECT_THAT(processes_->Log("run"),
              AllOf(HasSubstr(kGoesOn),
                    HasSubstr("server-0 ended (killed by signal 9): no error in its log; other "
                              "servers have its shards, and another one is started in its place\n"),
                    HasSubstr("\n1 coordinator replaced, 1 server replaced\njob digits is done: "),
                    HasSubstr("\n1 server was lost and replaced; nothing was lost\n")));
  ExpectTheBitsOfAnUndisturbedRun();
}

TEST_F(CoordinatorLossTest, UnderSspAllStepsAreDoneToo) {
  StartTraining({"--steps=3000", "--restart=on_failure", "--consistency=ssp", "--staleness=3"});
  Kill("capstan_coordinator");
  ASSERT_TRUE(WaitForLine("has taken over in phase TRAINING")) << processes_->Log("run");
  ExpectGoodEnd("run");
  EXPECT_THAT(processes_->Log("run"), HasSubstr(kGoesOn));
  EXPECT_EQ(Summary("run")["steps"], 3000);
  EXPECT_EQ(Summary("run")["workers_lost"], 0);
  EXPECT_GT(Summary("run")["test_accuracy"], 0.9);
}

TEST_F(CoordinatorLossTest, AnInterruptEndsAJobThatHasJustLostItsCoordinator) {
  StartTraining({"--epochs=100000"});
  Kill("capstan_coordinator");
  ASSERT_EQ(kill(processes_->pid("run"), SIGINT), 0);
  // By themselves the members would wait for 600 s.
  EXPECT_EQ(processes_->WaitForExit("run", kPatience).code, 130) << processes_->Log("run");
}

TEST_F(CoordinatorLossTest, WithRestartNeverTheJobFails) {
  StartTraining({"--epochs=100000", "--restart=never"});
  Kill("capstan_coordinator");
  EXPECT_EQ(processes_->WaitForExit("run", kPatience).code, 1);
  EXPECT_THAT(processes_->Log("run"),
              HasSubstr("capstan run: coordinator ended (killed by signal 9): no error in its log; "
                        "logs in "));
}

}  // namespace
}  // namespace capstan
