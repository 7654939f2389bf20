// Jobs with local steps, through the real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

class LocalStepsTest : public testing::Test {
 protected:
  LocalStepsTest() {
    std::string folder = testing::TempDir() + "/local-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  int Start(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "--run_dir=" + processes_->path("run-dir")});
    processes_->Start("run", "deploy/cli/capstan", flags);
    return processes_->WaitForExit("run", absl::Seconds(100)).code;
  }
  nlohmann::json Run(std::vector<std::string> flags) {
    EXPECT_EQ(Start(std::move(flags)), 0) << processes_->Log("run");
    return nlohmann::json::parse(ReadFile(processes_->path("run-dir/summary.json")));
  }

  std::unique_ptr<JobProcesses> processes_;
};

TEST_F(LocalStepsTest, TheJobFileLearnsDigitsWithFewBytes) {
  const nlohmann::json local = Run({"--job=deploy/jobs/digits_local.textproto"});
  EXPECT_GE(local["test_accuracy"].get<double>(), 0.94);
  EXPECT_EQ(local["steps"], 69) << "60 epochs of 23 batches, in rounds of 20";
  const nlohmann::json each = Run({"--job=deploy/jobs/digits.textproto"});
  EXPECT_GT(each["bytes_pushed"].get<double>(), 70 * local["bytes_pushed"].get<double>());
}

TEST_F(LocalStepsTest, DownpourLearnsDigits) {
  const nlohmann::json summary =
      Run({"--local_steps=5", "--optimizer=adagrad", "--consistency=async", "--epochs=60"});
  EXPECT_GE(summary["test_accuracy"].get<double>(), 0.9);
}

TEST_F(LocalStepsTest, AReplayTakesItsTimeForEachLocalStep) {
  const nlohmann::json summary =
      Run({"--model=replay", "--field=model.replay.layers=resnet50",
           "--field=model.replay.scale=1000", "--field=model.replay.compute_seconds=0.01",
           "--local_steps=10", "--fragments=5", "--fragment_sync_delay=1", "--steps=10"});
  EXPECT_EQ(summary["steps"], 10);
  EXPECT_GE(summary["median_step_seconds"].get<double>(), 0.09);
}

}  // namespace
}  // namespace capstan
