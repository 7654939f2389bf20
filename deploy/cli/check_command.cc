#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/history/check/check_history.h"
#include "common/history/history.h"
#include "common/history/history_file.h"
#include "deploy/cli/commands.h"

namespace capstan {
namespace {

constexpr int kMostSkewMs = 3'600'000;

// "ssp(2)", "bsp from step 40", "ssp(8) for table 3 from step 40"
std::string PromiseText(const v1::ContractRecord& contract) {
  std::string text = absl::AsciiStrToLower(v1::ContractRecord::Mode_Name(contract.mode()));
  if (contract.mode() == v1::ContractRecord::SSP) {
    absl::StrAppend(&text, "(", contract.staleness(), ")");
  }
  if (contract.has_table()) absl::StrAppend(&text, " for table ", contract.table());
  if (contract.from_step() > 0) absl::StrAppend(&text, " from step ", contract.from_step());
  return text;
}

// Each promise once. Every worker has recorded the same promises.
std::string PromisesText(const std::vector<v1::ContractRecord>& contracts) {
  std::vector<std::string> texts;
  for (const v1::ContractRecord& contract : contracts) {
    std::string text = PromiseText(contract);
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) {
      texts.push_back(std::move(text));
    }
  }
  return absl::StrJoin(texts, ", ");
}

void PrintRules(const v1::HistoryHeader& header, std::ostream& out) {
  const bool is_restored = header.restored_step() > 0 && !header.has_test_values();
  out << "checked by versions and min_step: staleness bound, isolation of BSP, "
      << (is_restored ? "monotonic reads, " : "exactly once, monotonic reads, min_step, ")
      << "stale incarnations, an answer to every exchange\n";
  out << (header.has_test_values() ? "checked by values"
                                   : "not checked, because the history has no values")
      << ": which updates each pull contains (read-my-writes, phantoms, one sum a step)\n";
  if (is_restored) {
    out << "not checked, because the job went on from a checkpoint (step " << header.restored_step()
        << "): exactly once and min_step\n";
  }
  out << "clocks may differ by " << absl::FormatDuration(absl::Nanoseconds(header.clock_skew_ns()))
      << std::endl;
}

}  // namespace

absl::Status CheckCommand(const std::string& path, std::optional<absl::Duration> clock_skew,
                          std::ostream& out) {
  ASSIGN_OR_RETURN(History history, ReadHistory(path));
  if (clock_skew.has_value()) {
    history.header.set_clock_skew_ns(absl::ToInt64Nanoseconds(*clock_skew));
  }
  ASSIGN_OR_RETURN(const HistoryVerdict verdict, CheckHistory(history));
  out << PromisesText(history.contracts) << ": " << verdict.exchanges << " exchanges ("
      << verdict.pulls << " pulls) of " << verdict.slices << " slices by " << verdict.incarnations
      << " worker processes" << (history.header.has_test_values() ? ", with values" : "")
      << std::endl;
  PrintRules(history.header, out);
  if (!verdict.violation.empty()) {
    out << verdict.violations << " violations; updates lost: " << verdict.lost_updates
        << ", applied twice: " << verdict.doubled_updates << std::endl;
    return absl::AbortedError(absl::StrCat("the contract was broken: ", verdict.violation));
  }
  out << "the consistency contract was kept" << std::endl;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<absl::Duration>> ReadClockSkew(const std::string& milliseconds) {
  if (milliseconds.empty()) return std::nullopt;
  double value = 0;
  if (absl::SimpleAtod(milliseconds, &value) && value >= 0 && value <= kMostSkewMs) {
    return absl::Milliseconds(value);
  }
  return absl::InvalidArgumentError(absl::StrCat("--clock_skew_ms: expected a number from 0 to ",
                                                 kMostSkewMs, ", got ", milliseconds));
}

}  // namespace capstan
