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
  // Empty when the history keeps the contract. Else the first violation: its rule, what was seen
  // and expected, and a line for each exchange that proves it.
  std::string violation;
};

// Checks every rule of the consistency contract that the history can tell. INVALID_ARGUMENT when it
// does not say what was promised.
absl::StatusOr<HistoryVerdict> CheckHistory(const History& history);

}  // namespace capstan

#endif  // COMMON_HISTORY_CHECK_CHECK_HISTORY_H_
