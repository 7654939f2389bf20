#ifndef COMMON_METRICS_PROCESS_METRICS_H_
#define COMMON_METRICS_PROCESS_METRICS_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "common/metrics/metrics_page.h"

namespace capstan {

// What the kernel knows of a process.
struct ProcessNumbers {
  double cpu_seconds = 0;
  double seconds_after_boot = 0;  // when it began
  uint64_t resident_bytes = 0;
};

// Reads the text of /proc/PID/stat. Nothing: the text has another format.
std::optional<ProcessNumbers> ParseProcessStat(absl::string_view stat);

// Adds this process's process_* metrics. What /proc does not say is left out.
void AddProcessMetrics(MetricsPage& page);

}  // namespace capstan

#endif  // COMMON_METRICS_PROCESS_METRICS_H_
