// Jobs with two copies of each shard, through the real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

class CopiesTest : public testing::Test {
 protected:
  CopiesTest() {
    std::string folder = testing::TempDir() + "/copies-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  nlohmann::json Run(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "--run_dir=" + processes_->path("run-dir")});
    processes_->Start("run", "deploy/cli/capstan", flags);
    EXPECT_EQ(processes_->WaitForExit("run", absl::Seconds(100)).code, 0) << processes_->Log("run");
    return nlohmann::json::parse(ReadFile(processes_->path("run-dir/summary.json")));
  }
  std::string Status() {
    processes_->Start("status", "deploy/cli/capstan",
                      {"status", "--coordinator=" + processes_->coordinator_address()});
    EXPECT_EQ(processes_->WaitForExit("status", absl::Seconds(30)).code, 0);
    return processes_->Log("status");
  }

  std::unique_ptr<JobProcesses> processes_;
};

TEST_F(CopiesTest, TheParametersAreThoseOfOneCopy) {
  const std::vector<std::vector<std::string>> jobs = {
      {"--optimizer=adam"},
      {"--push_codec=int8", "--pull_codec=int8", "--optimizer=momentum"},
      {"--push_codec=topk:0.1", "--pull_codec=topk:0.1"},
      {"--job=deploy/jobs/ctr_deepfm.textproto", "--consistency=bsp",
       "--field=data.synthetic_ctr.samples=4000", "--field=data.synthetic_ctr.test_samples=500"},
  };
  for (const std::vector<std::string>& job : jobs) {
    std::vector<std::string> flags = job;
    flags.insert(flags.end(), {"--num_servers=3", "--num_workers=2", "--steps=40"});
    const nlohmann::json one = Run(flags);
    flags.push_back("--replicas=2");
    const nlohmann::json two = Run(flags);
    const std::string name = absl::StrCat(flags[0], " and the others");
    EXPECT_EQ(one["parameters_xxh3"], two["parameters_xxh3"]) << name;
    EXPECT_EQ(one.value("bytes_between_servers", 0), 0) << name;
    EXPECT_GT(two["bytes_between_servers"].get<double>(), 0) << name;
  }
}

TEST_F(CopiesTest, UpdatesOfSspAndAsyncTravelAsTheyCame) {
  for (const std::string mode : {"--consistency=ssp", "--consistency=async"}) {
    std::vector<std::string> flags = {mode, "--replicas=2", "--num_workers=3", "--epochs=20"};
    if (mode == "--consistency=ssp") flags.push_back("--staleness=2");
    const nlohmann::json summary = Run(flags);
    // All but those before the copies were there, which takes far less than an epoch.
    EXPECT_GT(summary["bytes_between_servers"].get<double>(),
              0.9 * summary["bytes_pushed"].get<double>());
  }
}

TEST_F(CopiesTest, TheStatusSaysHowFarTheCopiesAre) {
  processes_->StartCoordinator({"--replicas=2", "--num_servers=2", "--num_workers=1",
                                "--consistency=async", "--epochs=100000"});
  processes_->StartMembers(/*num_servers=*/2, /*num_workers=*/1);
  std::string status;
  EXPECT_TRUE(processes_->WaitUntil(absl::Seconds(60), [this, &status] {
    status = Status();
    return status.find("copies: 64 of 64 whole, equal at version") != std::string::npos;
  })) << status;
  EXPECT_THAT(processes_->Log("coordinator"), HasSubstr("all 64 shards have two equal copies"));
}

TEST_F(CopiesTest, ACheckpointRestoresWithAnyNumberOfCopies) {
  const std::string dir = "--checkpoint_dir=" + processes_->path("checkpoints");
  const std::vector<std::string> job = {dir, "--num_workers=2", "--optimizer=adam"};
  const auto with = [&job](std::vector<std::string> flags) {
    flags.insert(flags.begin(), job.begin(), job.end());
    return flags;
  };
  const nlohmann::json whole =
      Run({"--num_workers=2", "--optimizer=adam", "--steps=60", "--num_servers=2"});
  Run(with({"--steps=20", "--checkpoint_steps=20", "--replicas=2", "--num_servers=2"}));
  Run(with({"--steps=40", "--checkpoint_steps=20", "--num_servers=1", "--restore=latest"}));
  const nlohmann::json end =
      Run(with({"--steps=60", "--replicas=2", "--num_servers=3", "--restore=latest"}));
  EXPECT_EQ(end["parameters_xxh3"], whole["parameters_xxh3"]);
}

}  // namespace
}  // namespace capstan
