#ifndef COMMON_TRACE_MERGE_TRACES_H_
#define COMMON_TRACE_MERGE_TRACES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace capstan {

// One process in a merged trace.
struct MergedProcess {
  std::string name;  // "worker 3"; the file's name when the process was killed without one
  int64_t events = 0;
  int64_t left_out = 0;              // events for which its file had no room
  bool has_end = false;              // false: the process was killed, or still runs
  absl::Duration clock_uncertainty;  // largest error of its times against the coordinator's
};

struct MergedTrace {
  std::vector<MergedProcess> processes;  // in the order of the files
  int64_t events = 0;
  absl::Duration duration;  // from the beginning of the first trace to the last event
};

// Merges the traces of processes into one file for viewers. Its times are by the coordinator's
// clock and count from the beginning of the first trace. `output` is none of `paths`. Returns
// errors of TraceReader, and UNAVAILABLE when `output` cannot be written.
absl::StatusOr<MergedTrace> MergeTraces(const std::vector<std::string>& paths,
                                        const std::string& output);

}  // namespace capstan

#endif  // COMMON_TRACE_MERGE_TRACES_H_
