// The command line changes the consistency of a running job. The history must keep all promises.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/history/check/contract.h"
#include "common/history/history_file.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

class SetTest : public testing::Test {
 protected:
  SetTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
    std::filesystem::create_directory(History());
  }

  std::string History() const { return processes_->path("history"); }

  // 1 server and 3 recorded workers.
  void StartJob(std::vector<std::string> job_flags) {
    job_flags.insert(job_flags.end(), {"--num_servers=1", "--num_workers=3"});
    processes_->StartCoordinator(job_flags);
    const std::string coordinator = "--coordinator=" + processes_->coordinator_address();
    processes_->Start("server", "server/capstan_server", {coordinator, "--listen=127.0.0.1:0"});
    for (int i = 0; i < 3; ++i) {
      processes_->Start(absl::StrCat("worker-", i), "worker/capstan_worker",
                        {coordinator, "--record_history=" + History()});
    }
    ASSERT_TRUE(processes_->WaitForLog("coordinator", "phase TRAINING", absl::Seconds(30)));
  }

  void SignalWorkers(int signal) {
    for (int i = 0; i < 3; ++i) processes_->Signal(absl::StrCat("worker-", i), signal);
  }

  // The exit code of `capstan set`; its output is the log of `name`.
  int Set(const std::string& name, std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"set", "--coordinator=" + processes_->coordinator_address()});
    processes_->Start(name, "deploy/cli/capstan", flags);
    return processes_->WaitForExit(name, absl::Seconds(30)).code;
  }

  std::unique_ptr<JobProcesses> processes_;
};

TEST_F(SetTest, ARunningJobKeepsWhatItPromisesThroughEveryChange) {
  StartJob({"--consistency=bsp", "--steps=3000", "--table_staleness=", "--lease_seconds=120",
            "--rpc_deadline_seconds=120"});
  // Meanwhile the job does not end.
  SignalWorkers(SIGSTOP);
  EXPECT_EQ(Set("ssp", {"--consistency=ssp", "--staleness=4"}), 0) << processes_->Log("ssp");
  EXPECT_TRUE(absl::StrContains(processes_->Log("ssp"), "of 3000 on: ssp, staleness 4"))
      << processes_->Log("ssp");
  EXPECT_EQ(Set("less", {"--staleness=1"}), 0) << processes_->Log("less");
  EXPECT_EQ(Set("async", {"--consistency=async"}), 0) << processes_->Log("async");
  EXPECT_EQ(Set("bsp", {"--consistency=bsp"}), 0) << processes_->Log("bsp");
  EXPECT_EQ(Set("bad", {"--staleness=1"}), 1) << "staleness is for ssp only";
  EXPECT_EQ(Set("wrong", {"--consistency=eventual"}), 2);
  SignalWorkers(SIGCONT);
  EXPECT_EQ(processes_->WaitForExit("coordinator", absl::Seconds(100)).code, 0)
      << processes_->Log("coordinator");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(processes_->WaitForExit(absl::StrCat("worker-", i), absl::Seconds(30)).code, 0);
  }

  // Each change is in the history, and took effect before the last step.
  const auto history = ReadHistory(History());
  ASSERT_TRUE(history.ok()) << history.status();
  int64_t last = 0;
  for (const v1::ContractRecord& record : history->contracts) {
    last = std::max(last, record.from_step());
  }
  EXPECT_GT(last, 3);
  EXPECT_LT(last, 3000);
  EXPECT_TRUE(Contract(history->contracts).Of(TableId(0), Step(last)).is_isolated());
  EXPECT_FALSE(Contract(history->contracts).Of(TableId(0), Step(last - 1)).is_isolated());
  processes_->Start("check", "deploy/cli/capstan", {"check", History()});
  EXPECT_EQ(processes_->WaitForExit("check", absl::Seconds(100)).code, 0)
      << processes_->Log("check");
}

TEST_F(SetTest, TablesHaveAStalenessOfTheirOwn) {
  StartJob({"--consistency=ssp", "--staleness=8", "--table_staleness=fc1.weight:0", "--steps=300"});
  EXPECT_EQ(processes_->WaitForExit("coordinator", absl::Seconds(100)).code, 0)
      << processes_->Log("coordinator");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(processes_->WaitForExit(absl::StrCat("worker-", i), absl::Seconds(30)).code, 0);
  }
  const auto history = ReadHistory(History());
  ASSERT_TRUE(history.ok()) << history.status();
  int tables_at_zero = 0;
  for (uint32_t table = 0; table < 6; ++table) {
    tables_at_zero += Contract(history->contracts).Of(TableId(table), Step(5)).staleness == 0;
  }
  EXPECT_EQ(tables_at_zero, 1);
  processes_->Start("check", "deploy/cli/capstan", {"check", History()});
  EXPECT_EQ(processes_->WaitForExit("check", absl::Seconds(100)).code, 0)
      << processes_->Log("check");
}

TEST_F(SetTest, ATableThatTheModelDoesNotHaveIsRefused) {
  processes_->StartCoordinator({"--num_servers=1", "--num_workers=1", "--consistency=ssp",
                                "--staleness=1", "--table_staleness=no_such_table:2"});
  processes_->Start("worker", "worker/capstan_worker",
                    {"--coordinator=" + processes_->coordinator_address()});
  EXPECT_EQ(processes_->WaitForExit("worker", absl::Seconds(30)).code, 1);
  EXPECT_TRUE(absl::StrContains(processes_->Log("worker"), "got \"no_such_table\""))
      << processes_->Log("worker");
}

}  // namespace
}  // namespace capstan
