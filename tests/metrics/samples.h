#ifndef TESTS_METRICS_SAMPLES_H_
#define TESTS_METRICS_SAMPLES_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace capstan {

// The samples of a page in Prometheus's text format, by name and labels as they are written:
// "capstan_members{role=\"worker\",state=\"live\"}".
using Samples = std::map<std::string, double>;

// Lines that are neither samples nor comments get the name "not a sample: ...".
Samples ParseSamples(absl::string_view page);

// The sum over all labels of the metric.
double SumOf(const Samples& samples, absl::string_view metric);

// Whether the page has a sample of the metric, or of its histogram.
bool HasMetric(const Samples& samples, absl::string_view metric);

}  // namespace capstan

#endif  // TESTS_METRICS_SAMPLES_H_
