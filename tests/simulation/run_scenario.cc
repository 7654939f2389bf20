#include "tests/simulation/run_scenario.h"

#include <glog/logging.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/history/check_history.h"
#include "common/history/history.h"
#include "common/history/history_file.h"
#include "tests/simulation/simulated_cluster.h"

namespace capstan {
namespace {

// Empty when the job ended as it may.
std::string BadEnd(const SimulationResult& result) {
  if (!result.outcome.has_value()) return "the job has hung";
  const absl::Status& status = result.outcome->status;
  // Whoever is silent for its lease ends a job that cannot go on without it.
  if (status.ok() || absl::StrContains(status.message(), "has been silent for")) return "";
  return absl::StrCat("the job has failed: ", status.message());
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
  verdict.violation = history.violation.empty() ? BadEnd(result) : history.violation;
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

}  // namespace capstan
