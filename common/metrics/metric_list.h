#ifndef COMMON_METRICS_METRIC_LIST_H_
#define COMMON_METRICS_METRIC_LIST_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace capstan {

enum class MetricType { kCounter, kGauge, kHistogram };

// The programs that serve a metric: a sum of these.
inline constexpr int kOfCoordinator = 1;
inline constexpr int kOfServer = 2;
inline constexpr int kOfWorker = 4;

// A metric that a program can serve. Samples of others are bugs.
struct Metric {
  absl::string_view name;
  MetricType type;
  // Names of its labels, separated by commas. Empty: it has none, so there is one sample.
  absl::string_view labels;
  int programs;            // as kOfServer | kOfWorker
  absl::string_view help;  // one line
  bool needs_gpu = false;  // only a worker that computes on a GPU has it
};

// All there are, in the order of the pages.
absl::Span<const Metric> MetricList();

// Null: there is none of this name.
const Metric* FindMetric(absl::string_view name);

// Upper bounds of the buckets of capstan_staleness_steps. One more bucket has all larger values.
absl::Span<const double> StalenessBounds();

// The list as a table in Markdown, for deploy/guide/metrics.md.
std::string MetricTable();

}  // namespace capstan

#endif  // COMMON_METRICS_METRIC_LIST_H_
