#include "tests/simulation/run_scenario.h"

#include <glog/logging.h>

#include "common/history/check/check_history.h"
#include "common/history/history.h"
#include "common/history/history_file.h"
#include "tests/simulation/bad_end.h"
#include "tests/simulation/simulated_cluster.h"

namespace capstan {

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

}  // namespace capstan
