// `capstan run --restart` whose members are killed at random moments, one by one and together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/cli/report/progress_log.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr int kKills = 10;  // over each transport
constexpr int kSteps = 4000;
constexpr int kMostSteps = kSteps / 2;  // of a job that is still to be killed
// Whoever still waits then waits for ever.
constexpr absl::Duration kPatience = absl::Seconds(120);
constexpr int kProcesses = 5;  // a coordinator, 2 servers and 2 workers

class RestartTest : public testing::TestWithParam<const char*> {
 protected:
  RestartTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  std::string RunDir(const std::string& name) const { return processes_->path(name + "-dir"); }

  // Starts the digits job with more steps, under `name`.
  void StartRun(const std::string& name, const std::vector<std::string>& flags) {
    std::vector<std::string> args = {"run", "--job=deploy/jobs/digits.textproto",
                                     absl::StrCat("--steps=", kSteps), "--run_dir=" + RunDir(name),
                                     "--heartbeat_seconds=0.05"};
    args.insert(args.end(), flags.begin(), flags.end());
    processes_->Start(name, "deploy/cli/capstan", args);
  }
  // No other process does a lost worker's step again, as tests/chaos has it.
  std::vector<std::string> RestartFlags() const {
    return {"--checkpoint_dir=" + processes_->path("checkpoints"), "--checkpoint_steps=50",
            "--restart=on_failure", "--replace_seconds=0"};
  }
  void ExpectGoodEnd(const std::string& name) {
    const ChildExit exit = processes_->WaitForExit(name, kPatience);
    EXPECT_TRUE(exit.ok()) << exit.ToString() << "\n" << processes_->Log(name);
  }
  nlohmann::json Summary(const std::string& name) {
    return nlohmann::json::parse(ReadFile(RunDir(name) + "/summary.json"), nullptr,
                                 /*allow_exceptions=*/false);
  }

  // The running processes of the job: children of capstan run.
  std::vector<pid_t> Members() {
    const pid_t run = processes_->pid("run");
    std::istringstream children(ReadFile(absl::StrCat("/proc/", run, "/task/", run, "/children")));
    std::vector<pid_t> pids;
    for (pid_t pid; children >> pid;) {
      const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
      // Between fork and exec it is a copy of capstan run. After its end it is a zombie.
      const bool is_member = !absl::StrContains(stat, "(capstan)") && !stat.empty();
      if (is_member && !absl::StrContains(stat, ") Z ")) pids.push_back(pid);
    }
    return pids;
  }
  // The pids of members with this program.
  std::vector<pid_t> Members(const std::string& program) {
    std::vector<pid_t> found;
    for (const pid_t pid : Members()) {
      // The kernel keeps 15 characters of a name.
      const std::string name = ReadFile(absl::StrCat("/proc/", pid, "/comm"));
      if (absl::StartsWith(name, program.substr(0, 15))) found.push_back(pid);
    }
    return found;
  }

  // The number of lines of progress so far.
  size_t NumSamples() { return Samples().size(); }
  std::vector<RunSample> Samples() {
    return ParseRunCourse(ReadFile(RunDir("run") + "/progress.jsonl"))
        .value_or(std::vector<RunSample>());
  }
  // Waits until a worker has done this step. Samples before `first` are of earlier lives.
  bool WaitForStep(double step, size_t first) {
    return processes_->WaitUntil(kPatience, [&] { return HasDoneStep(step, first); });
  }
  bool HasDoneStep(double step, size_t first) {
    const std::vector<RunSample> samples = Samples();
    return std::any_of(samples.begin() + std::min(first, samples.size()), samples.end(),
                       [step](const RunSample& sample) {
                         return std::any_of(sample.workers.begin(), sample.workers.end(),
                                            [step](const WorkerSample& worker) {
                                              return worker.steps_done >= step;
                                            });
                       });
  }

  // Kills some of the processes, most often one, and returns how many it has killed. Never the
  // coordinator alone: another one would go on.
  int KillSome(std::mt19937& random) {
    std::vector<pid_t> victims;
    processes_->WaitUntil(kPatience, [&] { return (victims = Members()).size() > 1; });
    std::shuffle(victims.begin(), victims.end(), random);
    size_t most = random() % 3 == 0 ? 1 + random() % kProcesses : 1;
    const std::vector<pid_t> coordinators = Members("capstan_coordinator");
    if (!coordinators.empty() && victims.front() == coordinators.front()) {
      most = std::max<size_t>(most, 2);
    }
    victims.resize(std::min(victims.size(), most));
    int killed = 0;
    for (const pid_t pid : victims) killed += kill(pid, SIGKILL) == 0;
    return killed;
  }

  std::unique_ptr<JobProcesses> processes_;
};

INSTANTIATE_TEST_SUITE_P(Transports, RestartTest, testing::Values("grpc", "ucx"),
                         [](const auto& info) { return std::string(info.param); });

// Two kills of three come at random steps of the training, the third one at a random moment after
// a restart, or before the job ends. So it goes on between them on any machine.
TEST_P(RestartTest, AJobWhoseMembersAreKilledEndsWithTheBitsOfAnUndisturbedOne) {
  const std::string transport = absl::StrCat("--transport=", GetParam());
  StartRun("undisturbed", {transport});
  ExpectGoodEnd("undisturbed");
  const nlohmann::json expected = Summary("undisturbed");

  constexpr uint32_t kSeed = 20301121;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  std::vector<int> steps;
  for (int i = 0; i < kKills; ++i) steps.push_back(static_cast<int>(random() % kMostSteps));
  std::sort(steps.begin(), steps.end());
  std::vector<std::string> flags = RestartFlags();
  flags.push_back(transport);
  StartRun("run", flags);
  size_t samples = 0;
  for (int i = 0; i < kKills; ++i) {
    if (i % 3 == 2) {
      processes_->WaitUntil(absl::Milliseconds(random() % 700),
                            [&] { return HasDoneStep(kMostSteps, samples); });
    } else {
      ASSERT_TRUE(WaitForStep(1 + steps[i], samples)) << processes_->Log("run");
    }
    ASSERT_GE(KillSome(random), 1);
    ASSERT_TRUE(
        processes_->WaitForLog("run", absl::StrCat("; restart ", i + 1, " "), absl::Seconds(60)))
        << processes_->Log("run");
    samples = NumSamples();
  }
  ExpectGoodEnd("run");
  EXPECT_THAT(processes_->Log("run"), HasSubstr(absl::StrCat("\nrestarted ", kKills, " times")));
  EXPECT_THAT(processes_->Log("run"), HasSubstr(absl::StrCat("; restart ", kKills, " from step ")));
  const nlohmann::json summary = Summary("run");
  ASSERT_TRUE(summary.contains("parameters_xxh3"));
  EXPECT_EQ(summary["parameters_xxh3"], expected["parameters_xxh3"]);
  EXPECT_EQ(summary["test_accuracy"], expected["test_accuracy"]);
  EXPECT_EQ(summary["steps"], kSteps);
}

// The others would long be done when the command notices the loss.
TEST_F(RestartTest, AWorkerWhoseLossTheCommandNoticesLateIsNotMissingInTheBits) {
  StartRun("undisturbed", {});
  ExpectGoodEnd("undisturbed");
  std::vector<std::string> flags = RestartFlags();
  flags.push_back("--lease_seconds=1.5");
  StartRun("run", flags);
  ASSERT_TRUE(WaitForStep(500, /*first=*/0)) << processes_->Log("run");
  const std::vector<pid_t> workers = Members("capstan_worker");
  ASSERT_EQ(workers.size(), 2) << processes_->Log("run");
  ASSERT_EQ(kill(processes_->pid("run"), SIGSTOP), 0);
  ASSERT_EQ(kill(workers[1], SIGKILL), 0);
  const bool has_ended = processes_->WaitUntil(kPatience, [this] {
    const std::string log = ReadFile(RunDir("run") + "/coordinator.log");
    return absl::StrContains(log, "phase FAILED") || absl::StrContains(log, "phase DONE");
  });
  ASSERT_EQ(kill(processes_->pid("run"), SIGCONT), 0);
  ASSERT_TRUE(has_ended);
  ExpectGoodEnd("run");
  EXPECT_THAT(processes_->Log("run"), HasSubstr("\nrestarted 1 time\njob digits is done: "));
  EXPECT_EQ(Summary("run")["parameters_xxh3"], Summary("undisturbed")["parameters_xxh3"]);
  EXPECT_EQ(Summary("run")["workers_lost"], 0);
}

TEST_F(RestartTest, UnderSspAKilledWorkerAloneIsReplaced) {
  std::vector<std::string> flags = RestartFlags();
  for (const char* const flag : {"--consistency=ssp", "--staleness=2", "--lease_seconds=1.5"}) {
    flags.push_back(flag);
  }
  StartRun("run", flags);
  ASSERT_TRUE(WaitForStep(500, /*first=*/0)) << processes_->Log("run");
  std::vector<pid_t> others = Members();
  const std::vector<pid_t> workers = Members("capstan_worker");
  ASSERT_EQ(workers.size(), 2) << processes_->Log("run");
  others.erase(std::find(others.begin(), others.end(), workers[1]));
  ASSERT_EQ(kill(workers[1], SIGKILL), 0);
  ASSERT_TRUE(processes_->WaitForLog("run", "; another takes its place", absl::Seconds(20)))
      << processes_->Log("run");
  const std::vector<pid_t> now = Members();
  for (const pid_t pid : others) EXPECT_THAT(now, testing::Contains(pid)) << "was not killed";
  ExpectGoodEnd("run");
  EXPECT_THAT(processes_->Log("run"), HasSubstr("\n1 worker replaced\njob digits is done: "));
  EXPECT_EQ(Summary("run")["workers_lost"], 1);
  EXPECT_EQ(Summary("run")["workers_replaced"], 1);
}

}  // namespace
}  // namespace capstan
