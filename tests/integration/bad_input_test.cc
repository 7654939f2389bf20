// What a user can get wrong: each ends with one line that says what was expected.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

class BadInputTest : public testing::Test {
 protected:
  BadInputTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = processes_->path(name);
    std::ofstream(path) << text;
    return path;
  }
  // Runs a program to its end; expects an exit code that is not 0 and a last line with `text`.
  void ExpectRefused(const std::string& program, std::vector<std::string> args,
                     const std::string& text) {
    const std::string name = absl::StrCat("run-", ++runs_);
    processes_->Start(name, program, args);
    const ChildExit exit = processes_->WaitForExit(name, absl::Seconds(30));
    EXPECT_NE(exit.code, 0);
    EXPECT_EQ(exit.signal, 0);
    EXPECT_NE(processes_->Log(name).find(text), std::string::npos)
        << "expected: " << text << "\nsaid: " << processes_->Log(name);
  }
  void ExpectRunRefused(std::vector<std::string> flags, const std::string& text) {
    std::vector<std::string> args = {
        "run", absl::StrCat("--run_dir=", processes_->path("run"), runs_ + 1)};
    args.insert(args.end(), flags.begin(), flags.end());
    ExpectRefused("deploy/cli/capstan", args, text);
  }

  std::unique_ptr<JobProcesses> processes_;
  int runs_ = 0;
};

TEST_F(BadInputTest, Flags) {
  ExpectRunRefused({"--consistency=eventual"}, "expected one of bsp, ssp, async; got \"eventual\"");
  ExpectRunRefused({"--consistency=ssp", "--staleness=-1"}, "expected 0 or more, got -1");
  ExpectRunRefused({"--learning_rat=1"}, "learning_rat");
  ExpectRunRefused({"--num_workers=many"}, "--num_workers");
  ExpectRunRefused({"--slice_bytes=100"}, "--slice_bytes");
  ExpectRefused("server/capstan_coordinator", {"--consistency=eventual"},
                "expected one of bsp, ssp, async; got \"eventual\"");
  ExpectRefused("server/capstan_server", {}, "expected --coordinator=HOST:PORT");
  ExpectRefused("worker/capstan_worker", {"--coordinatr=x"}, "coordinatr");
}

TEST_F(BadInputTest, JobFiles) {
  ExpectRunRefused({"--job=" + processes_->path("none.textproto")}, "none.textproto");
  const std::string misspelt =
      Write("misspelt.textproto", "name: \"x\"\noptimizer { learnin_rate: 0.1 }\n");
  ExpectRunRefused({"--job=" + misspelt}, "misspelt.textproto:2:");
  ExpectRunRefused({"--job=" + misspelt}, "learning_rate");
}

TEST_F(BadInputTest, DataFiles) {
  const auto csv = [](const std::string& path) {
    return std::vector<std::string>{"--data_format=csv", "--data_path=" + path};
  };
  ExpectRunRefused(csv(processes_->path("none.csv")), "none.csv");
  ExpectRunRefused({"--data_format=csv"}, "--data_path: expected the file of samples");
  ExpectRunRefused(csv(Write("columns.csv", "1,2,0\n1,2,1\n1,0\n")),
                   "columns.csv, line 3: expected 3 columns as in line 1, got 2");
  std::vector<std::string> labels = csv(Write("labels.csv", "1,2,0\n1,2,1\n1,3,7\n"));
  labels.push_back("--classes=2");
  ExpectRunRefused(labels,
                   "labels.csv, line 3: column 2 (from 0): expected a label below 2, got 7");

  const std::string truncated = processes_->path("truncated.csv.gz");
  const gzFile file = gzopen(truncated.c_str(), "wb");
  std::string rows;
  for (int i = 0; i < 5000; ++i) rows += absl::StrCat(i * 7919 % 1000, ",", i, ",", i % 2, "\n");
  gzwrite(file, rows.data(), static_cast<unsigned>(rows.size()));
  gzclose(file);
  const std::string bytes = ReadFile(truncated);
  std::ofstream(truncated, std::ios::trunc) << bytes.substr(0, bytes.size() / 2);
  ExpectRunRefused(csv(truncated), "truncated.csv.gz");
}

TEST_F(BadInputTest, ADataSetThatDoesNotFitTheTestFile) {
  std::vector<std::string> flags = {
      "--data_format=csv", "--data_path=" + Write("train.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n"),
      "--test_path=" + Write("test.csv", "1,2,3,0\n")};
  ExpectRunRefused(flags, "features");
}

TEST_F(BadInputTest, PortInUse) {
  processes_->StartCoordinator({});
  ExpectRefused("server/capstan_coordinator", {"--listen=" + processes_->coordinator_address()},
                "the port is in use");
  ExpectRefused("server/capstan_server",
                {"--coordinator=" + processes_->coordinator_address(),
                 "--listen=" + processes_->coordinator_address()},
                "the port is in use");
}

TEST_F(BadInputTest, UnreachableCoordinator) {
  for (const std::string program : {"server/capstan_server", "worker/capstan_worker"}) {
    ExpectRefused(program, {"--coordinator=127.0.0.1:1", "--rpc_deadline_seconds=1"},
                  "coordinator 127.0.0.1:1 has been unreachable for 1 s");
  }
  ExpectRefused("deploy/cli/capstan", {"status", "--coordinator=127.0.0.1:1"}, "127.0.0.1:1");
}

TEST_F(BadInputTest, AWorkerTooManyIsTurnedAway) {
  processes_->StartCoordinator({"--num_workers=1", "--num_servers=1", "--steps=1000000"});
  processes_->StartMembers(/*num_servers=*/1, /*num_workers=*/1);
  ExpectRefused("worker/capstan_worker", {"--coordinator=" + processes_->coordinator_address()},
                "the job has its 1 worker");
}

}  // namespace
}  // namespace capstan
