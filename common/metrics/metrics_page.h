#ifndef COMMON_METRICS_METRICS_PAGE_H_
#define COMMON_METRICS_METRICS_PAGE_H_

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/metrics/metric_list.h"

namespace capstan {

// The samples of one scrape. A sample of a metric that is not in MetricList, or with other labels
// than the list says, is a bug and ends the process. Not thread-safe.
class MetricsPage {
 public:
  // Name and value, in the order of the list. Values may come from peers.
  using Labels = std::initializer_list<std::pair<absl::string_view, absl::string_view>>;

  MetricsPage();

  // A counter or a gauge.
  void Add(absl::string_view name, double value) { Add(name, {}, value); }
  void Add(absl::string_view name, Labels labels, double value);

  // A histogram without labels. counts[i] is the number of values in (bounds[i - 1], bounds[i]];
  // the last count is of the values above all bounds. `sum` is that of all values.
  void AddHistogram(absl::string_view name, absl::Span<const double> bounds,
                    absl::Span<const uint64_t> counts, double sum);

  // In Prometheus's text format, in the order of the list. Metrics without samples are left out.
  std::string Text() const;

 private:
  prometheus::ClientMetric& NewSample(absl::string_view name, Labels labels);

  std::vector<prometheus::MetricFamily> families_;  // as MetricList
};

}  // namespace capstan

#endif  // COMMON_METRICS_METRICS_PAGE_H_
