#include "tests/metrics/samples.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace capstan {
namespace {

absl::string_view MetricOf(absl::string_view series) { return series.substr(0, series.find('{')); }

}  // namespace

Samples ParseSamples(absl::string_view page) {
  Samples samples;
  for (const absl::string_view line : absl::StrSplit(page, '\n', absl::SkipEmpty())) {
    if (absl::StartsWith(line, "#")) continue;
    const size_t space = line.rfind(' ');
    double value = 0;
    if (space == absl::string_view::npos || !absl::SimpleAtod(line.substr(space + 1), &value)) {
      samples[absl::StrCat("not a sample: ", line)] = 0;
      continue;
    }
    samples[std::string(line.substr(0, space))] = value;
  }
  return samples;
}

double SumOf(const Samples& samples, absl::string_view metric) {
  double sum = 0;
  for (const auto& [series, value] : samples) {
    if (MetricOf(series) == metric) sum += value;
  }
  return sum;
}

bool HasMetric(const Samples& samples, absl::string_view metric) {
  for (const auto& [series, value] : samples) {
    if (MetricOf(series) == metric || MetricOf(series) == absl::StrCat(metric, "_bucket")) {
      return true;
    }
  }
  return false;
}

}  // namespace capstan
