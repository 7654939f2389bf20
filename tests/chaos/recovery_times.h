#ifndef TESTS_CHAOS_RECOVERY_TIMES_H_
#define TESTS_CHAOS_RECOVERY_TIMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/history/history.h"

namespace capstan {

// A process of a job got a signal.
struct Loss {
  std::string signal;  // "KILL"
  bool is_worker = false;
  int64_t time_ns = 0;
};

// Reads lines "SIGNAL server|worker NANOSECONDS". INVALID_ARGUMENT, naming the line.
absl::StatusOr<std::vector<Loss>> ReadLosses(absl::string_view text);

// For each loss, the nanoseconds to the end of the first step that follows it: a worker has the
// answers to all its pushes of the step, and sent all of them after the loss. If a worker was lost,
// it is a step of the next process in its place. None: no step followed.
std::vector<std::optional<int64_t>> RecoveryTimes(const History& history,
                                                  const std::vector<Loss>& losses);

// The longest time in nanoseconds between the first pushes of two steps that a process did one
// after the other; 0: none did two.
int64_t LongestStep(const History& history);

}  // namespace capstan

#endif  // TESTS_CHAOS_RECOVERY_TIMES_H_
