#include "tests/simulation/run_scenario.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/history/check/check_history.h"
#include "common/history/history.h"
#include "common/history/history_file.h"

namespace capstan {
namespace {

// Whether a member can be silent for its lease. It can if it dies, or if the network drops
// messages, maybe several heartbeats in a row. It also can if the pauses of the member and of the
// coordinator add up to a lease, less the time between two heartbeats and the time to bring one or
// its repeat. The coordinator hears nothing during its own pause.
bool CanSilence(const Scenario& scenario, Fault::Kind pause, Fault::Kind kill, uint32_t process) {
  if (scenario.network.drop > 0) return true;
  absl::Duration silence;
  for (const Fault& fault : scenario.faults) {
    const bool is_of_process = fault.process == process;
    if (fault.kind == kill && is_of_process) return true;
    if (fault.kind == Fault::Kind::kPauseCoordinator || (fault.kind == pause && is_of_process)) {
      silence += fault.pause;
    }
  }
  const v1::MembershipSpec& membership = scenario.job.membership();
  return silence >= absl::Seconds(membership.lease_seconds() - 2 * membership.heartbeat_seconds());
}

bool CanSilenceServer(const Scenario& scenario, uint32_t process) {
  return CanSilence(scenario, Fault::Kind::kPauseServer, Fault::Kind::kKillServer, process);
}

// Counts workers from the start of the job only. Their replacements suffer no faults.
uint32_t WorkersThatCanBeSilenced(const Scenario& scenario) {
  uint32_t count = 0;
  for (uint32_t process = 0; process < scenario.job.cluster().num_workers(); ++process) {
    count += CanSilence(scenario, Fault::Kind::kPauseWorker, Fault::Kind::kKillWorker, process);
  }
  return count;
}

bool MayFailFor(const Scenario& scenario, absl::string_view reason) {
  if (!absl::StrContains(reason, "has been silent for")) return false;
  if (absl::StrContains(reason, "last live worker")) {
    return WorkersThatCanBeSilenced(scenario) == scenario.job.cluster().num_workers();
  }
  for (uint32_t process = 0; process < scenario.job.cluster().num_servers(); ++process) {
    // The server's port is `process` + 1.
    if (absl::StrContains(reason, absl::StrCat("(simulated:", process + 1, ")"))) {
      return CanSilenceServer(scenario, process);
    }
  }
  return absl::StrContains(reason, "before training began") &&
         WorkersThatCanBeSilenced(scenario) > 0;
}

bool CanLackMember(const Scenario& scenario) {
  return std::any_of(scenario.faults.begin(), scenario.faults.end(), [](const Fault& fault) {
    const bool is_kill =
        fault.kind == Fault::Kind::kKillServer || fault.kind == Fault::Kind::kKillWorker;
    return is_kill && fault.replaced_after == absl::ZeroDuration();
  });
}

}  // namespace

ScenarioVerdict RunScenario(const Scenario& scenario) {
  SimulatedCluster cluster(scenario);
  const SimulationResult result = cluster.Run();
  HistoryAssembler assembler;
  absl::Status status = assembler.AddFile(result.records);
  CHECK(status.ok()) << "seed " << scenario.seed << ": " << status;
  const HistoryVerdict history = CheckHistory(assembler.Finish().value()).value();
  ScenarioVerdict verdict;
  verdict.violation = history.violation.empty() ? BadEnd(scenario, result) : history.violation;
  verdict.exchanges = history.exchanges;
  for (const v1::HistoryRecord& record : result.records) {
    const v1::ContractRecord& contract = record.contract();
    verdict.changes +=
        !contract.has_table() && contract.from_step() > 0 && contract.from_step() < scenario.steps;
  }
  verdict.incarnations = static_cast<int>(history.incarnations);
  verdict.is_done = result.outcome.has_value() && result.outcome->status.ok();
  verdict.bytes = SerializeHistory(result.records);
  return verdict;
}

std::string BadEnd(const Scenario& scenario, const SimulationResult& result) {
  if (!result.outcome.has_value()) {
    return result.is_registering && CanLackMember(scenario) ? "" : "the job has hung";
  }
  const absl::Status& status = result.outcome->status;
  if (status.ok() || MayFailFor(scenario, status.message())) return "";
  return absl::StrCat("the job has failed: ", status.message());
}

}  // namespace capstan
