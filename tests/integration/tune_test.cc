// A job of real processes tunes its schedule while it runs.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

class TuneTest : public testing::Test {
 protected:
  TuneTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  // The summary of `capstan run` with these flags; its output is the log of `name`.
  nlohmann::json Run(const std::string& name, std::vector<std::string> flags) {
    flags.insert(flags.begin(),
                 {"run", "--run_dir=" + processes_->path(name + "-run"), "--hidden=64,64",
                  "--slice_bytes=4KiB", "--summary_json=" + processes_->path(name + ".json")});
    processes_->Start(name, "deploy/cli/capstan", flags);
    EXPECT_TRUE(processes_->WaitForExit(name, absl::Seconds(120)).ok()) << processes_->Log(name);
    return nlohmann::json::parse(ReadFile(processes_->path(name + ".json")));
  }

  std::unique_ptr<JobProcesses> processes_;
};

TEST_F(TuneTest, ItEndsWithinBoundsTellsWhatItChoseAndKeepsTheBits) {
  const nlohmann::json tuned = Run("tuned", {"--field=scheduler.tune=on", "--steps=3000"});
  const nlohmann::json plain = Run("plain", {"--steps=3000"});
  EXPECT_EQ(tuned["parameters_xxh3"], plain["parameters_xxh3"]);
  EXPECT_FALSE(plain.contains("tuning"));

  ASSERT_TRUE(tuned["tuning"].contains("chosen")) << tuned["tuning"].dump();
  EXPECT_LE(tuned["tuning"]["tried"].size(), 17u);
  EXPECT_GT(tuned["tuning"]["chosen"]["step_seconds"].get<double>(), 0);
  const std::string reason = tuned["tuning"]["reason"].get<std::string>();
  EXPECT_TRUE(absl::StrContains(reason, " points in ")) << reason;
  EXPECT_TRUE(absl::StrContains(processes_->Log("tuned"), reason)) << processes_->Log("tuned");
  EXPECT_FALSE(absl::StrContains(processes_->Log("plain"), "  tuned ")) << processes_->Log("plain");
}

TEST_F(TuneTest, WholeTensorsAreRefused) {
  processes_->Start("run", "deploy/cli/capstan",
                    {"run", "--field=scheduler.tune=on", "--schedule=tensor_fifo"});
  EXPECT_EQ(processes_->WaitForExit("run", absl::Seconds(30)).code, 2);
  EXPECT_TRUE(absl::StrContains(processes_->Log("run"), "scheduler.tune: expected off, because"))
      << processes_->Log("run");
}

}  // namespace
}  // namespace capstan
