#ifndef COMMON_TRACE_TRACE_READER_H_
#define COMMON_TRACE_TRACE_READER_H_

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/trace/trace_event.h"

namespace capstan {

// Reads the trace file of one process, one event at a time: a file of any length fits. An event cut
// off by a kill is left out. Not thread-safe.
class TraceReader {
 public:
  // NOT_FOUND, or INVALID_ARGUMENT when the file is no trace of one process. Both name the file.
  static absl::StatusOr<TraceReader> Open(const std::string& path);

  // The beginning of the trace, by the clock of its process.
  absl::Time begin() const { return begin_; }
  const ClockOffset& clock_offset() const { return clock_offset_; }

  // The next event; none at the end. INVALID_ARGUMENT, naming the file and the line, when the line
  // is no event.
  absl::StatusOr<std::optional<nlohmann::json>> Next();

 private:
  TraceReader(const std::string& path) : path_(path), file_(path) {}

  absl::Status ReadClock();
  absl::Status Damaged(const std::string& got) const;

  std::string path_;
  std::ifstream file_;
  int64_t line_ = 0;
  std::optional<nlohmann::json> first_;  // until Next returns it
  absl::Time begin_;
  ClockOffset clock_offset_;
};

}  // namespace capstan

#endif  // COMMON_TRACE_TRACE_READER_H_
