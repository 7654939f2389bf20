#include "deploy/cli/check_command.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/history/check_history.h"
#include "common/history/history.h"
#include "common/history/history_file.h"

namespace capstan {
namespace {

// "ssp(2)"
std::string PromiseText(const v1::ContractRecord& contract) {
  const std::string mode = absl::AsciiStrToLower(v1::ContractRecord::Mode_Name(contract.mode()));
  if (contract.mode() != v1::ContractRecord::SSP) return mode;
  return absl::StrCat(mode, "(", contract.staleness(), ")");
}

}  // namespace

absl::Status CheckCommand(const std::string& path, std::ostream& out) {
  ASSIGN_OR_RETURN(const History history, ReadHistory(path));
  ASSIGN_OR_RETURN(const HistoryVerdict verdict, CheckHistory(history));
  out << PromiseText(history.contracts.front()) << ": " << verdict.exchanges << " exchanges ("
      << verdict.pulls << " pulls) of " << verdict.slices << " slices by " << verdict.incarnations
      << " worker processes" << (history.header.has_test_values() ? ", with values" : "")
      << std::endl;
  if (!verdict.violation.empty()) {
    return absl::AbortedError(absl::StrCat("the contract was broken: ", verdict.violation));
  }
  out << "the consistency contract was kept" << std::endl;
  return absl::OkStatus();
}

}  // namespace capstan
