#include "common/history/check/check_history.h"

#include <vector>

#include "common/base/status_macros.h"
#include "common/history/check/contract.h"
#include "common/history/check/history_index.h"
#include "common/history/check/rules.h"

namespace capstan {

absl::StatusOr<HistoryVerdict> CheckHistory(const History& history) {
  RETURN_IF_ERROR(Contract::Check(history.contracts));
  const Contract contract(history.contracts);
  const Lives lives(history);
  const std::vector<SliceHistory> slices = SplitBySlice(history);
  Violations violations;
  for (const SliceHistory& slice : slices) {
    const CheckedSlice checked{history, contract, lives, slice};
    // Values first: they make the plainest proof.
    if (history.header.has_test_values()) CheckValues(checked, violations);
    CheckUpdateScale(checked, violations);
    CheckReplies(checked, violations);
  }
  HistoryVerdict verdict;
  verdict.exchanges = history.exchanges.size();
  for (const RecordedExchange& exchange : history.exchanges) {
    verdict.pulls += exchange.is_ok() && exchange.pull_step.has_value();
  }
  verdict.slices = slices.size();
  for (const auto& [worker, of_worker] : lives.all()) verdict.incarnations += of_worker.size();
  verdict.violations = violations.size();
  verdict.lost_updates = violations.CountOf(UpdateFate::kLost);
  verdict.doubled_updates = violations.CountOf(UpdateFate::kDoubled);
  verdict.violation = violations.DescribeFirst(history);
  return verdict;
}

}  // namespace capstan
