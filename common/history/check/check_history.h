#ifndef COMMON_HISTORY_CHECK_CHECK_HISTORY_H_
#define COMMON_HISTORY_CHECK_CHECK_HISTORY_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "common/history/history.h"

namespace capstan {

struct HistoryVerdict {
  size_t exchanges = 0;
  size_t pulls = 0;  // answered with values
  size_t slices = 0;
  size_t incarnations = 0;
  size_t violations = 0;
  size_t lost_updates = 0;     // updates of slices that a pull lacks, but must have
  size_t doubled_updates = 0;  // updates of slices that were applied twice
  // Empty when the history keeps the contract. Else the first violation: its rule, a sentence on
  // the expected and the seen, and a line for each exchange of the proof.
  std::string violation;
};

// Checks a history against the consistency contract in it. The rules on values need test values in
// the history. INVALID_ARGUMENT when the history has no valid contract.
absl::StatusOr<HistoryVerdict> CheckHistory(const History& history);

}  // namespace capstan

#endif  // COMMON_HISTORY_CHECK_CHECK_HISTORY_H_
