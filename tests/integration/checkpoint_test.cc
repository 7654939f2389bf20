// Checkpoints of real jobs: jobs that are killed and go on, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr int64_t kEndless = 1'000'000;  // steps of a job that is killed

// Its files stay open, and folders locked, until its last thread has ended. Nobody may wait for it.
bool HasEnded(pid_t pid) {
  const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  if (!absl::StrContains(stat, ") Z ")) return stat.empty();
  std::error_code gone;
  int threads = 0;
  for (fs::directory_iterator thread(absl::StrCat("/proc/", pid, "/task"), gone);
       !gone && thread != fs::directory_iterator(); thread.increment(gone)) {
    ++threads;
  }
  return gone || threads <= 1;
}

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    // Programs name paths in their normal form.
    std::string folder = fs::path(testing::TempDir() + "/capstan-XXXXXX").lexically_normal();
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  // The exit code of `capstan` with these arguments; its log has the name of the command.
  int Capstan(const std::vector<std::string>& args) {
    processes_->Start(args[0], "deploy/cli/capstan", args);
    return processes_->WaitForExit(args[0], kPatience).code;
  }
  // A job with its checkpoints in dir().
  std::vector<std::string> RunArgs(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "--run_dir=" + RunFile(""), "--checkpoint_dir=" + dir()});
    return flags;
  }
  int Run(std::vector<std::string> flags) { return Capstan(RunArgs(std::move(flags))); }
  void StartRun(std::vector<std::string> flags) {
    fs::remove_all(RunFile(""));
    processes_->Start("run", "deploy/cli/capstan", RunArgs(std::move(flags)));
  }
  // A file in the folder of the run.
  std::string RunFile(const std::string& file) const { return processes_->path("run-dir/") + file; }
  nlohmann::json Summary() { return nlohmann::json::parse(ReadFile(RunFile("summary.json"))); }

  void WaitForRunLog(const std::string& member, const std::string& text) {
    ASSERT_TRUE(processes_->WaitUntil(
        kPatience, [&] { return absl::StrContains(ReadFile(RunFile(member + ".log")), text); }))
        << processes_->Log("run") << ReadFile(RunFile("coordinator.log"));
  }
  void Pass(absl::Duration duration) {
    processes_->WaitUntil(duration, [] { return false; });
  }
  // Kills all processes of the run, and waits for their ends.
  void KillRun() {
    const pid_t run = processes_->pid("run");
    std::istringstream children(ReadFile(absl::StrCat("/proc/", run, "/task/", run, "/children")));
    std::vector<pid_t> pids;
    for (pid_t pid; children >> pid;) pids.push_back(pid);
    processes_->Signal("run", SIGKILL);
    const ChildExit exit = processes_->WaitForExit("run", kPatience);
    EXPECT_EQ(exit.signal, SIGKILL) << "the job had ended: " << exit.ToString() << "\n"
                                    << processes_->Log("run");
    EXPECT_FALSE(pids.empty());
    for (const pid_t pid : pids) {
      ASSERT_TRUE(processes_->WaitUntil(kPatience, [pid] { return HasEnded(pid); })) << pid;
    }
  }

  std::string dir() const { return processes_->path("checkpoints"); }
  // The complete checkpoints, the oldest first.
  std::vector<std::string> Complete() {
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(dir())) {
      if (fs::exists(entry.path() / "manifest")) found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  // No slice of the newest one has an update of this step.
  int64_t EndStepOfNewest() {
    const std::string manifest = ReadFile(Complete().back() + "/manifest");
    return std::stoll(manifest.substr(manifest.find("end_step: ") + 10));
  }
  // Cuts half of the newest checkpoint's first file off.
  std::string TruncateNewest() {
    for (const fs::directory_entry& entry : fs::directory_iterator(Complete().back())) {
      if (entry.path().extension() != ".safetensors") continue;
      fs::resize_file(entry.path(), entry.file_size() / 2);
      return entry.path();
    }
    return "no shard";
  }

  std::unique_ptr<JobProcesses> processes_;
};

TEST_F(CheckpointTest, ABspJobThatIsKilledTenTimesHasTheBitsOfOneThatIsNot) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const auto flags_of_life = [&](int life, int64_t steps) {
    // Other servers and transports each time.
    return std::vector<std::string>{absl::StrCat("--steps=", steps), "--checkpoint_steps=50",
                                    "--restore=latest",
                                    absl::StrCat("--num_servers=", 1 + life % 3),
                                    life % 2 == 0 ? "--transport=ucx" : "--transport=grpc"};
  };
  constexpr int kKills = 10;
  for (int life = 0; life < kKills; ++life) {
    StartRun(flags_of_life(life, kEndless));
    WaitForRunLog("worker-1", "] training");
    if (life == 0) WaitForRunLog("coordinator", "is complete");
    Pass(absl::Milliseconds(random() % 300));
    KillRun();
  }
  const int64_t steps = EndStepOfNewest() + 200;
  ASSERT_EQ(Run(flags_of_life(kKills, steps)), 0) << processes_->Log("run");
  const nlohmann::json disturbed = Summary();
  fs::remove_all(dir());
  ASSERT_EQ(Run({absl::StrCat("--steps=", steps)}), 0) << processes_->Log("run");
  EXPECT_EQ(disturbed["parameters_xxh3"], Summary()["parameters_xxh3"]);
  EXPECT_EQ(disturbed["test_accuracy"], Summary()["test_accuracy"]);
  EXPECT_EQ(disturbed["steps"], steps);
}

TEST_F(CheckpointTest, AnSspOrAsyncJobThatIsKilledLearnsWhatItShould) {
  for (const std::string consistency : {"ssp", "async"}) {
    SCOPED_TRACE(consistency);
    fs::remove_all(dir());
    const std::vector<std::string> job = {"--consistency=" + consistency, "--checkpoint_steps=100",
                                          "--restore=latest"};
    const auto flags = [&job](int64_t steps) {
      std::vector<std::string> flags = job;
      flags.push_back(absl::StrCat("--steps=", steps));
      return flags;
    };
    for (int life = 0; life < 2; ++life) {
      StartRun(flags(kEndless));
      WaitForRunLog("coordinator", "is complete");
      KillRun();
    }
    const int64_t steps = EndStepOfNewest() + 2000;
    std::vector<std::string> recorded = flags(steps);
    const std::string history = processes_->path(consistency + "-history");
    recorded.push_back("--record_history=" + history);
    ASSERT_EQ(Run(recorded), 0) << processes_->Log("run");
    EXPECT_GE(Summary()["test_accuracy"].get<double>(), 0.94);
    EXPECT_EQ(Summary()["steps"], steps);
    EXPECT_GT(Summary()["samples"], steps * 31 * 2) << "also of the lives before";
    EXPECT_EQ(Capstan({"check", history}), 0) << processes_->Log("check");
    EXPECT_THAT(processes_->Log("check"), HasSubstr("went on from a checkpoint (step "));
  }
}

TEST_F(CheckpointTest, ByTheClockTheLastOneIsOfTheEnd) {
  const std::vector<std::string> job = {"--steps=500", "--checkpoint_seconds=0.05", "--keep=1",
                                        "--heartbeat_seconds=0.05", "--restore=latest"};
  ASSERT_EQ(Run(job), 0) << processes_->Log("run");
  EXPECT_THAT(ReadFile(RunFile("coordinator.log")),
              HasSubstr("--restore=latest: there is no complete checkpoint in " + dir() +
                        ", so the job begins anew"));
  const nlohmann::json summary = Summary();
  ASSERT_EQ(Complete().size(), 1u);
  const std::string newest = Complete()[0];
  ASSERT_EQ(Capstan({"checkpoint", "--verify=" + dir()}), 0) << processes_->Log("checkpoint");
  EXPECT_THAT(processes_->Log("checkpoint"), HasSubstr("step 500 of 500"));

  // The model in it has the figures of the summary.
  const std::string model = processes_->path("m.safetensors");
  ASSERT_EQ(Capstan({"export", "--checkpoint=" + dir(), "--output=" + model}), 0);
  const std::string hash = summary["parameters_xxh3"];
  EXPECT_THAT(processes_->Log("export"), HasSubstr("parameters_xxh3 " + hash));
  ASSERT_EQ(Capstan({"evaluate", model}), 0) << processes_->Log("evaluate");
  EXPECT_THAT(processes_->Log("evaluate"),
              AllOf(HasSubstr("step: 500\n"), HasSubstr("parameters_xxh3 " + hash),
                    HasSubstr("test accuracy " + summary["test_accuracy"].dump() + "\n")));

  // A job that is done needs no step more.
  ASSERT_EQ(Run(job), 0) << processes_->Log("run");
  const nlohmann::json again = Summary();
  for (const char* field : {"parameters_xxh3", "test_accuracy", "test_loss", "steps"}) {
    EXPECT_EQ(again[field], summary[field]) << field;
  }
  EXPECT_EQ(Complete().back(), newest) << "no other one";

  // Nor can it have fewer steps. With more, it goes on.
  EXPECT_EQ(Run({"--steps=400", "--restore=latest"}), 1);
  EXPECT_THAT(processes_->Log("run"),
              HasSubstr("--steps: expected at least 500, the step of " + newest));
  ASSERT_EQ(Run({"--steps=550", "--restore=latest"}), 0) << processes_->Log("run");
  EXPECT_EQ(Summary()["steps"], 550);
}

TEST_F(CheckpointTest, AChangeOfTheConsistencyIsInTheCheckpointThatIsAskedFor) {
  StartRun({"--epochs=100000", "--consistency=bsp"});
  WaitForRunLog("worker-1", "] training");
  std::string address;
  ASSERT_TRUE(processes_->WaitUntil(kPatience, [&] {
    std::istringstream log(ReadFile(RunFile("coordinator.log")));
    for (std::string word; log >> word;) {
      if (absl::StartsWith(word, "127.0.0.1:") && address.empty()) address = word;
    }
    return !address.empty();
  }));
  const std::string coordinator = "--coordinator=" + address;
  ASSERT_EQ(Capstan({"set", coordinator, "--consistency=ssp", "--staleness=2"}), 0)
      << processes_->Log("set");
  ASSERT_EQ(Capstan({"checkpoint", coordinator}), 0) << processes_->Log("checkpoint");
  EXPECT_THAT(processes_->Log("checkpoint"),
              AllOf(HasSubstr("step "), HasSubstr(dir() + "/checkpoint-000001 is complete")));
  KillRun();
  const std::string before = ReadFile(Complete().back() + "/manifest");
  EXPECT_THAT(before, HasSubstr("mode: SSP"));

  // In the next life it is the consistency of the job file that is the same, not of the steps.
  const int64_t step = EndStepOfNewest();
  const std::string history = processes_->path("history");
  ASSERT_EQ(Run({absl::StrCat("--steps=", step + 200), "--consistency=bsp", "--restore=latest",
                 "--record_history=" + history}),
            0)
      << processes_->Log("run");
  EXPECT_EQ(Summary()["steps"], step + 200);
  EXPECT_LE(Summary()["max_staleness_seen"], 2);
  const nlohmann::json periods = Summary()["consistency_periods"];
  ASSERT_EQ(periods.size(), 2u) << periods;
  EXPECT_EQ(periods[1]["consistency"], "ssp");
  EXPECT_EQ(Capstan({"check", history}), 0) << processes_->Log("check");
}

// The limit of the size of a file that a process can write.
void LimitFiles(pid_t pid, rlim_t bytes) {
  rlimit limit{};
  ASSERT_EQ(prlimit(pid, RLIMIT_FSIZE, nullptr, &limit), 0);
  limit.rlim_cur = std::min(bytes, limit.rlim_max);
  ASSERT_EQ(prlimit(pid, RLIMIT_FSIZE, &limit, nullptr), 0);
}

TEST_F(CheckpointTest, AServerThatCannotWriteLeavesTheOlderOneWholeAndTheJobGoesOn) {
  // Servers inherit this. A write beyond the limit is then an error.
  signal(SIGXFSZ, SIG_IGN);
  processes_->StartCoordinator(
      {"--checkpoint_dir=" + dir(), "--steps=1000000", "--shard_count=2", "--keep=1"});
  processes_->StartMembers(/*num_servers=*/2, /*num_workers=*/2);
  ASSERT_TRUE(processes_->WaitForLog("worker-1", "] training", kPatience));
  const std::vector<std::string> ask = {"checkpoint",
                                        "--coordinator=" + processes_->coordinator_address()};
  ASSERT_EQ(Capstan(ask), 0) << processes_->Log("checkpoint");
  LimitFiles(processes_->pid("server-1"), 20'000);
  EXPECT_EQ(Capstan(ask), 1);
  const auto says_why = AllOf(HasSubstr("server 1: "), HasSubstr("/checkpoint-000002/shard-"),
                              HasSubstr("File too large"));
  EXPECT_THAT(processes_->Log("checkpoint"), says_why);
  EXPECT_THAT(processes_->Log("coordinator"), AllOf(says_why, HasSubstr("; the job goes on")));
  ASSERT_EQ(Complete().size(), 1u);
  EXPECT_EQ(Capstan({"checkpoint", "--verify=" + dir()}), 0) << processes_->Log("checkpoint");
  LimitFiles(processes_->pid("server-1"), RLIM_INFINITY);
  ASSERT_EQ(Capstan(ask), 0) << processes_->Log("checkpoint");
  ASSERT_EQ(Complete().size(), 1u);
  EXPECT_THAT(Complete()[0], HasSubstr("checkpoint-000003"));
}

TEST_F(CheckpointTest, ADamagedOrForeignCheckpointIsRefusedWithTheReason) {
  ASSERT_EQ(Run({"--steps=20", "--checkpoint_steps=20"}), 0) << processes_->Log("run");
  const std::string newest = Complete().back();
  EXPECT_EQ(Run({"--steps=20"}), 1);
  EXPECT_THAT(processes_->Log("run"),
              AllOf(HasSubstr("--checkpoint_dir: expected a folder without checkpoints"),
                    HasSubstr("got " + newest), HasSubstr("--restore=latest")));
  EXPECT_EQ(Run({"--steps=20", "--restore=" + newest, "--hidden=16", "--seed=5"}), 1);
  EXPECT_THAT(processes_->Log("run"),
              AllOf(HasSubstr("--restore: " + newest), HasSubstr("--hidden: expected "),
                    HasSubstr("got 16"), HasSubstr("--seed: expected "), HasSubstr("got 5"),
                    HasSubstr("Only these may differ")));
  EXPECT_EQ(Run({"--steps=20", "--restore=" + dir()}), 1);
  EXPECT_THAT(processes_->Log("run"), HasSubstr("the newest of them is " + newest));
  const std::string truncated = TruncateNewest();
  EXPECT_EQ(Run({"--steps=20", "--restore=latest"}), 1);
  EXPECT_THAT(processes_->Log("run"),
              AllOf(HasSubstr(truncated + ": expected "), HasSubstr("as the manifest says, got ")));
}

}  // namespace
}  // namespace capstan
