// Judges the history of a job with losses, for chaos.sh: prints a line for each figure, and what
// the checker has found.
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/history/check/check_history.h"
#include "common/history/history_file.h"
#include "tests/chaos/recovery_times.h"

namespace capstan {
namespace {

absl::Status Judge(const std::string& folder, const std::string& losses_path) {
  ASSIGN_OR_RETURN(const History history, ReadHistory(folder));
  std::ifstream file(losses_path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSIGN_OR_RETURN(const std::vector<Loss> losses, ReadLosses(text));
  ASSIGN_OR_RETURN(const HistoryVerdict verdict, CheckHistory(history));
  const std::vector<std::optional<int64_t>> times = RecoveryTimes(history, losses);
  for (size_t i = 0; i < losses.size(); ++i) {
    const Loss& loss = losses[i];
    const std::string role = loss.is_worker ? "worker" : "server";
    std::cout << "loss " << loss.signal << " " << role << " "
              << (times[i].has_value()
                      ? absl::StrFormat("%.4f", static_cast<double>(*times[i]) * 1e-9)
                      : "none")
              << "\n";
  }
  std::cout << "exchanges " << verdict.exchanges << "\nhas_values "
            << history.header.has_test_values() << "\nviolations " << verdict.violations
            << "\nlost_updates " << verdict.lost_updates << "\ndoubled_updates "
            << verdict.doubled_updates << "\nlongest_step_s "
            << absl::StrFormat("%.4f", static_cast<double>(LongestStep(history)) * 1e-9) << "\n";
  if (!verdict.violation.empty()) std::cout << "first violation: " << verdict.violation << "\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: judge_history HISTORY_FOLDER LOSSES_FILE\n";
    return 2;
  }
  const absl::Status status = capstan::Judge(argv[1], argv[2]);
  if (!status.ok()) std::cerr << "judge_history: " << status.message() << "\n";
  return status.ok() ? 0 : 2;
}
