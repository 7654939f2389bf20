// Real runs are recorded, and what they did is checked against the consistency contract.
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

  struct EagerPulls {
    int kept = 0;       // answered from values that the worker had kept
    int refreshed = 0;  // of these, with newer ones than its push before had brought: the server
                        // has sent them since
  };

  static EagerPulls CountEager(const std::string& history) {
    EagerPulls pulls;
    for (const auto& entry : std::filesystem::directory_iterator(history)) {
      const std::vector<v1::HistoryRecord> records = ReadHistoryFile(entry.path()).value();
      std::map<uint64_t, v1::ExchangeBegan> began;
      std::map<std::array<int64_t, 3>, int64_t> min_step_of_push;  // by table, slice and pull step
      for (const v1::HistoryRecord& record : records) {
        if (record.has_began()) began[record.began().id()] = record.began();
        if (!Succeeded(record)) continue;
        const v1::ExchangeBegan& push = began[record.ended().id()];
        if (push.has_push()) {
          min_step_of_push[{push.table(), push.slice(), push.push_step() + 1}] =
              record.ended().min_step();
        }
      }
      for (const v1::HistoryRecord& record : records) {
        if (!Succeeded(record) || record.ended().asked_ns() == 0) continue;
        const v1::ExchangeBegan& pull = began[record.ended().id()];
        ++pulls.kept;
        // A refresh may overtake the answer to the worker's own push, so look in the whole file.
        const auto push = min_step_of_push.find({pull.table(), pull.slice(), pull.pull_step()});
        EXPECT_NE(push, min_step_of_push.end()) << pull.ShortDebugString();
        if (push == min_step_of_push.end()) continue;
        pulls.refreshed += record.ended().min_step() > push->second;
      }
    }
    return pulls;
  }

  static bool Succeeded(const v1::HistoryRecord& record) {
    return record.has_ended() && record.ended().code() == 0;
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

TEST_F(HistoryTest, WhatAnEagerWorkerUsesIsRecordedAndKeepsTheContract) {
  const std::vector<std::string> flags = {"--consistency=ssp", "--staleness=4"};
  const std::string lazy = RunRecorded("lazy", flags);
  std::vector<std::string> eager_flags = flags;
  eager_flags.push_back("--eager");
  const std::string eager = RunRecorded("eager", eager_flags);
  EXPECT_EQ(Check("eager-check", eager), 0) << processes_->Log("eager-check");
  const EagerPulls pulls = CountEager(eager);
  // All but the first pull of each slice, and those of the evaluation.
  EXPECT_GT(pulls.kept, 0.45 * static_cast<double>(ReadHistory(eager).value().exchanges.size()));
  RecordProperty("refreshed", pulls.refreshed);
  EXPECT_GT(pulls.refreshed, 0);
  EXPECT_EQ(CountEager(lazy).kept, 0);
}

TEST_F(HistoryTest, ARunThatBrokeItsContractIsFound) {
  const std::string history = RunRecorded("async", {"--consistency=async"});
  // The same exchanges as a job would have to answer them that had promised BSP.
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
