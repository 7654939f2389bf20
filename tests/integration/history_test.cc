// Histories of real runs are checked against the consistency contract.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/history/history_file.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

class HistoryTest : public testing::Test {
 protected:
  HistoryTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  // Runs a job to its end, and returns the folder of its history.
  std::string RunRecorded(const std::string& name, std::vector<std::string> flags) {
    const std::string history = processes_->path(name + "-history");
    flags.insert(flags.begin(), {"run", "--epochs=2", "--num_workers=3",
                                 absl::StrCat("--run_dir=", processes_->path(name)),
                                 absl::StrCat("--record_history=", history)});
    processes_->Start(name, "deploy/cli/capstan", flags);
    EXPECT_EQ(processes_->WaitForExit(name, absl::Seconds(60)).code, 0) << processes_->Log(name);
    return history;
  }

  // The exit code of `capstan check`.
  int Check(const std::string& name, const std::string& history) {
    processes_->Start(name, "deploy/cli/capstan", {"check", history});
    return processes_->WaitForExit(name, absl::Seconds(60)).code;
  }

  std::unique_ptr<JobProcesses> processes_;
};

TEST_F(HistoryTest, RecordedRunsKeepTheContract) {
  for (const std::string mode : {"bsp", "ssp", "async"}) {
    std::vector<std::string> flags = {"--consistency=" + mode, "--slice_bytes=8K"};
    if (mode == "ssp") flags.push_back("--staleness=1");
    const std::string history = RunRecorded(mode, flags);
    EXPECT_GT(ReadHistory(history).value().exchanges.size(), 500u);
    EXPECT_EQ(Check(mode + "-check", history), 0) << processes_->Log(mode + "-check");
    EXPECT_EQ(processes_->LastLine(mode + "-check"), "the consistency contract was kept");
  }
}

TEST_F(HistoryTest, ARunThatBrokeItsContractIsFound) {
  const std::string history = RunRecorded("async", {"--consistency=async"});
  // Checks the same exchanges against the promise of BSP.
  for (const auto& entry : std::filesystem::directory_iterator(history)) {
    std::vector<v1::HistoryRecord> records = ReadHistoryFile(entry.path()).value();
    ASSERT_TRUE(records[1].has_contract());
    records[1].mutable_contract()->set_mode(v1::ContractRecord::BSP);
    std::ofstream(entry.path(), std::ios::binary) << SerializeHistory(records);
  }
  EXPECT_EQ(Check("check", history), 1);
  EXPECT_NE(processes_->Log("check").find("the contract was broken: "), std::string::npos)
      << processes_->Log("check");
}

}  // namespace
}  // namespace capstan
