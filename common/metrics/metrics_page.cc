#include "common/metrics/metrics_page.h"

#include <glog/logging.h>
#include <prometheus/metric_type.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/printable_text.h"

namespace capstan {
namespace {

// Longer values of labels are cut.
constexpr size_t kMaxLabelBytes = 200;

prometheus::MetricType TypeOf(const Metric& metric) {
  switch (metric.type) {
    case MetricType::kCounter:
      return prometheus::MetricType::Counter;
    case MetricType::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricType::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

std::string LabelNames(MetricsPage::Labels labels) {
  return absl::StrJoin(
      labels, ",", [](std::string* out, const auto& label) { absl::StrAppend(out, label.first); });
}

}  // namespace

MetricsPage::MetricsPage() {
  for (const Metric& metric : MetricList()) {
    families_.push_back({std::string(metric.name), std::string(metric.help), TypeOf(metric), {}});
  }
}

prometheus::ClientMetric& MetricsPage::NewSample(absl::string_view name, Labels labels) {
  const Metric* const metric = FindMetric(name);
  CHECK(metric != nullptr) << "no metric " << name << " in metric_list.cc";
  CHECK_EQ(metric->labels, LabelNames(labels)) << name;
  prometheus::ClientMetric& sample = families_[metric - MetricList().data()].metric.emplace_back();
  for (const auto& [label, value] : labels) {
    sample.label.push_back(
        {std::string(label), PrintableText(absl::string_view(value).substr(0, kMaxLabelBytes))});
  }
  return sample;
}

void MetricsPage::Add(absl::string_view name, Labels labels, double value) {
  prometheus::ClientMetric& sample = NewSample(name, labels);
  CHECK(FindMetric(name)->type != MetricType::kHistogram) << name;
  (FindMetric(name)->type == MetricType::kCounter ? sample.counter.value : sample.gauge.value) =
      value;
}

void MetricsPage::AddHistogram(absl::string_view name, absl::Span<const double> bounds,
                               absl::Span<const uint64_t> counts, double sum) {
  prometheus::ClientMetric::Histogram& histogram = NewSample(name, {}).histogram;
  CHECK(FindMetric(name)->type == MetricType::kHistogram) << name;
  CHECK_EQ(counts.size(), bounds.size() + 1) << name;
  for (size_t i = 0; i < counts.size(); ++i) {
    histogram.sample_count += counts[i];
    const double bound = i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, bound});
  }
  histogram.sample_sum = sum;
}

std::string MetricsPage::Text() const {
  std::vector<prometheus::MetricFamily> served;
  std::copy_if(families_.begin(), families_.end(), std::back_inserter(served),
               [](const prometheus::MetricFamily& family) { return !family.metric.empty(); });
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, served);
  return text.str();
}

}  // namespace capstan
