#ifndef COMMON_PROCESS_PROCESS_LISTENERS_H_
#define COMMON_PROCESS_PROCESS_LISTENERS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/readiness.h"
#include "common/metrics/metrics_sources.h"
#include "common/net/http_listener.h"

namespace capstan {

// The ports that each program can have beside the one for its job. Null: not wanted.
struct ProcessListeners {
  std::unique_ptr<HttpListener> health;   // probes: /healthz and /readyz
  std::unique_ptr<HttpListener> metrics;  // the text of MetricsSources at /metrics
};

// `health_listen` and `metrics_listen` are the values of these flags; empty: not wanted.
// `readiness`, `metrics` and `clock` outlive the listeners. INVALID_ARGUMENT: a value is malformed.
// UNAVAILABLE: its port is in use, or its host is not of this machine. Both name the flag.
absl::StatusOr<ProcessListeners> StartProcessListeners(const std::string& health_listen,
                                                       const std::string& metrics_listen,
                                                       const Readiness& readiness,
                                                       const MetricsSources& metrics, Clock* clock);

}  // namespace capstan

#endif  // COMMON_PROCESS_PROCESS_LISTENERS_H_
