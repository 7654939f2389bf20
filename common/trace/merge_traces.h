#ifndef COMMON_TRACE_MERGE_TRACES_H_
#define COMMON_TRACE_MERGE_TRACES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace capstan {

// What the trace of one process brought.
struct MergedProcess {
  std::string name;  // "worker 3"; that of its file when it was killed before it had one
  int64_t events = 0;
  int64_t left_out = 0;              // events for which its file had no room
  bool has_end = false;              // it was not killed
  absl::Duration clock_uncertainty;  // how exactly its times fit the others'
};

struct MergedTrace {
  std::vector<MergedProcess> processes;  // in the order of the files
  int64_t events = 0;
  absl::Duration duration;  // from the beginning of the first trace to the last event
};

// Writes the traces of processes into one that viewers open, on the coordinator's clock, from the
// beginning of the first one. Errors of TraceReader; UNAVAILABLE when `output`, which is none of
// them, cannot be written.
absl::StatusOr<MergedTrace> MergeTraces(const std::vector<std::string>& paths,
                                        const std::string& output);

}  // namespace capstan

#endif  // COMMON_TRACE_MERGE_TRACES_H_
