// Runs random schedules of a whole job in virtual time, and checks each history against the
// consistency contract. The last line is "N histories, V violations".
#include <glog/logging.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/program.h"
#include "tests/simulation/coordinator_loss_scenario.h"
#include "tests/simulation/run_scenario.h"
#include "tests/simulation/scenario.h"

ABSL_FLAG(int64_t, seeds, 2000, "number of schedules");
ABSL_FLAG(uint64_t, first_seed, 1, "seed of the first schedule; the others follow it");
ABSL_FLAG(bool, copies, false, "each shard has two copies");
ABSL_FLAG(bool, lost_servers, false, "each shard has two copies, and servers are lost");
ABSL_FLAG(bool, lost_coordinators, false,
          "coordinators are lost, and others go on; some jobs have two copies of each shard");
ABSL_FLAG(int, threads, 2, "schedules that run at a time");
ABSL_FLAG(bool, until_violation, false, "stop after the first violation");
ABSL_FLAG(std::string, until_rule, "",
          "stop after the first violation of this rule, such as \"exactly once\"; empty: of none");
ABSL_FLAG(bool, log, false, "write what the processes log, too");
ABSL_FLAG(std::string, history, "", "file for the history of the last schedule; empty: none");

namespace capstan {
namespace {

// Shared by the threads.
struct Totals {
  std::atomic<int64_t> next = 0;
  std::atomic<bool> may_stop = false;
  Mutex mu;
  int64_t histories ABSL_GUARDED_BY(mu) = 0;
  int64_t violations ABSL_GUARDED_BY(mu) = 0;
  int64_t exchanges ABSL_GUARDED_BY(mu) = 0;
  int64_t done ABSL_GUARDED_BY(mu) = 0;
  int64_t changes ABSL_GUARDED_BY(mu) = 0;
  int64_t restores ABSL_GUARDED_BY(mu) = 0;
  int64_t known_ends ABSL_GUARDED_BY(mu) = 0;
  int64_t checked_pushes ABSL_GUARDED_BY(mu) = 0;
  int64_t known_rounds ABSL_GUARDED_BY(mu) = 0;
  int64_t compared_copies ABSL_GUARDED_BY(mu) = 0;
  int64_t copies_made_again ABSL_GUARDED_BY(mu) = 0;
  int64_t checked_replies ABSL_GUARDED_BY(mu) = 0;
  int64_t servers_lost ABSL_GUARDED_BY(mu) = 0;
  int64_t servers_replaced ABSL_GUARDED_BY(mu) = 0;
  int64_t take_overs ABSL_GUARDED_BY(mu) = 0;
  int64_t without_copy ABSL_GUARDED_BY(mu) = 0;
};

void Count(uint64_t seed, const Scenario& scenario, const ScenarioVerdict& verdict,
           Totals& totals) {
  MutexLock lock(&totals.mu);
  ++totals.histories;
  totals.exchanges += static_cast<int64_t>(verdict.exchanges);
  totals.done += verdict.is_done;
  totals.changes += verdict.changes;
  totals.restores += verdict.restores;
  totals.known_ends += verdict.known_ends;
  totals.checked_pushes += verdict.checked_pushes;
  totals.known_rounds += verdict.known_rounds;
  totals.compared_copies += verdict.compared_copies;
  totals.copies_made_again += verdict.copies_made_again;
  totals.checked_replies += verdict.checked_replies;
  totals.servers_lost += verdict.servers_lost;
  totals.servers_replaced += verdict.servers_replaced;
  totals.take_overs += verdict.take_overs;
  totals.without_copy += verdict.is_without_copy;
  if (verdict.violation.empty()) return;
  ++totals.violations;
  std::printf("seed %llu (%s): %s\n", static_cast<unsigned long long>(seed),
              Describe(scenario).c_str(), verdict.violation.c_str());
  std::fflush(stdout);
}

// Notes a finished schedule. An empty violation means none.
bool IsLast(const std::string& violation) {
  if (violation.empty()) return false;
  const std::string rule = absl::GetFlag(FLAGS_until_rule);
  return absl::GetFlag(FLAGS_until_violation) ||
         (!rule.empty() &&
          (violation == rule || absl::StartsWith(violation, absl::StrCat(rule, ":"))));
}

Scenario Draw(uint64_t seed) {
  if (absl::GetFlag(FLAGS_lost_coordinators)) return DrawCoordinatorLossScenario(seed);
  if (absl::GetFlag(FLAGS_lost_servers)) return DrawFailOverScenario(seed);
  return absl::GetFlag(FLAGS_copies) ? DrawCopiedScenario(seed) : DrawScenario(seed);
}

void RunSeeds(Totals& totals) {
  const int64_t seeds = absl::GetFlag(FLAGS_seeds);
  const std::string history = absl::GetFlag(FLAGS_history);
  while (!totals.may_stop) {
    const int64_t index = totals.next++;
    if (index >= seeds) return;
    const uint64_t seed = absl::GetFlag(FLAGS_first_seed) + static_cast<uint64_t>(index);
    const Scenario scenario = Draw(seed);
    const ScenarioVerdict verdict = RunScenario(scenario);
    Count(seed, scenario, verdict, totals);
    if (IsLast(verdict.violation)) totals.may_stop = true;
    if (index == seeds - 1 && !history.empty()) {
      std::ofstream(history, std::ios::binary) << verdict.bytes;
    }
  }
}

// The exit code.
int Run() {
  Totals totals;
  std::vector<std::thread> threads;
  for (int i = 0; i < absl::GetFlag(FLAGS_threads); ++i) {
    threads.emplace_back([&totals] { RunSeeds(totals); });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(&totals.mu);
  std::printf(
      "%lld exchanges, %lld jobs done well, %lld changes of the consistency, %lld restores from "
      "checkpoints, %lld ends with residuals compared\n",
      static_cast<long long>(totals.exchanges), static_cast<long long>(totals.done),
      static_cast<long long>(totals.changes), static_cast<long long>(totals.restores),
      static_cast<long long>(totals.known_ends));
  std::printf("%lld pushes of local steps and %lld ends of their jobs compared\n",
              static_cast<long long>(totals.checked_pushes),
              static_cast<long long>(totals.known_rounds));
  const bool loses_coordinators = absl::GetFlag(FLAGS_lost_coordinators);
  if (loses_coordinators) {
    std::printf("%lld times another coordinator took over\n",
                static_cast<long long>(totals.take_overs));
  }
  if (absl::GetFlag(FLAGS_copies) || absl::GetFlag(FLAGS_lost_servers) || loses_coordinators) {
    std::printf(
        "%lld comparisons of a shard with its copy, %lld copies made again, %lld replies "
        "that waited for one\n",
        static_cast<long long>(totals.compared_copies),
        static_cast<long long>(totals.copies_made_again),
        static_cast<long long>(totals.checked_replies));
    std::printf("%lld servers lost, %lld replaced, %lld jobs ended without a copy\n",
                static_cast<long long>(totals.servers_lost),
                static_cast<long long>(totals.servers_replaced),
                static_cast<long long>(totals.without_copy));
  }
  std::printf("%lld histories, %lld violations\n", static_cast<long long>(totals.histories),
              static_cast<long long>(totals.violations));
  return totals.violations > 0 ? 1 : 0;
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0], "runs random schedules of a job in virtual time and checks each.");
  const absl::Status parsed = capstan::ParseProgramFlags({argv, argv + argc});
  if (!parsed.ok()) capstan::EndProgram("simulation", parsed, /*is_usage_error=*/true);
  if (!absl::GetFlag(FLAGS_log)) FLAGS_minloglevel = google::GLOG_ERROR;
  capstan::ExitProgram(capstan::Run());
}
