#include "common/history/check_history.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/history/contract.h"
#include "common/history/lives.h"
#include "common/history/reply_rules.h"
#include "common/history/slice_history.h"
#include "common/history/update_scale_rules.h"
#include "common/history/value_rules.h"
#include "common/history/violation.h"

namespace capstan {
namespace {

std::string Describe(const Violation& violation, const History& history) {
  std::string text = absl::StrCat(violation.rule, ": ", violation.what);
  for (const RecordedExchange* exchange : violation.exchanges) {
    absl::StrAppend(&text, "\n  ", Describe(*exchange, history.begin_ns));
  }
  return text;
}

}  // namespace

absl::StatusOr<HistoryVerdict> CheckHistory(const History& history) {
  RETURN_IF_ERROR(Contract::Check(history.contracts));
  const Contract contract(history.contracts);
  const Lives lives(history);
  const std::vector<SliceHistory> slices = SplitBySlice(history);
  Violations violations;
  for (const SliceHistory& slice : slices) {
    const CheckedSlice checked{history, contract, lives, slice};
    // Values first: what they tell of an exchange is the plainer proof.
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
  if (!violations.empty()) verdict.violation = Describe(violations.First(), history);
  return verdict;
}

}  // namespace capstan
