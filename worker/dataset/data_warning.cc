#include "worker/dataset/data_warning.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

namespace capstan {
namespace {

absl::flat_hash_set<int32_t> LabelsOf(const DataSplit& split) {
  absl::flat_hash_set<int32_t> labels(split.train.labels.begin(), split.train.labels.end());
  labels.insert(split.test.labels.begin(), split.test.labels.end());
  return labels;
}

int LabelColumn(const v1::DataSpec& spec, const Dataset& data) {
  return spec.label_column() == -1 ? data.feature_count : spec.label_column();
}

std::string LabelWarning(const v1::DataSpec& spec, const DataSplit& split) {
  constexpr size_t kFewSamples = 100;
  const absl::flat_hash_set<int32_t> labels = LabelsOf(split);
  const size_t samples = split.train.size() + split.test.size();
  const auto classes = static_cast<size_t>(split.train.class_count);
  const std::string where = LabelsText(spec, split.train);
  if (labels.size() == 1) {
    return absl::StrCat("every label is ", *labels.begin(), " (", where, "): ", LabelRemedy(spec));
  }
  if (samples >= kFewSamples && labels.size() > samples / 2) {
    return absl::StrCat("the labels (", where, ") have ", labels.size(), " values in ", samples,
                        " samples, as numbers of samples or amounts have: ", LabelRemedy(spec));
  }
  if (spec.classes() != 0 || 2 * labels.size() >= classes) return "";
  return absl::StrCat("the labels (", where, ") have ", labels.size(), " values, but there are ",
                      classes, " classes, as the largest label is ", classes - 1,
                      ": number the labels from 0 on; or ", LabelRemedy(spec));
}

// The largest |value| of each feature.
std::vector<float> LargestOf(const Dataset& data) {
  std::vector<float> largest(static_cast<size_t>(data.feature_count));
  for (size_t sample = 0; sample < data.size(); ++sample) {
    const absl::Span<const float> row = data.Row(sample);
    for (size_t i = 0; i < row.size(); ++i) largest[i] = std::max(largest[i], std::abs(row[i]));
  }
  return largest;
}

std::string FeatureText(const v1::DataSpec& spec, const Dataset& data, size_t feature) {
  if (spec.format() != v1::DataSpec::CSV) {
    return absl::StrCat("feature ", feature + static_cast<size_t>(data.first_feature));
  }
  const bool is_behind = feature >= static_cast<size_t>(LabelColumn(spec, data));
  return absl::StrCat("column ", feature + (is_behind ? 1 : 0), " (from 0)");
}

// A quarter of the features is at most `usual`: their largest values are compared with it.
std::string ScaleWarning(const v1::DataSpec& spec, const Dataset& data) {
  constexpr float kLarge = 1000;
  constexpr size_t kMostNamed = 3;
  if (spec.feature_scale() != 0) return "";
  const std::vector<float> largest = LargestOf(data);
  std::vector<float> sorted = largest;
  sorted.erase(std::remove(sorted.begin(), sorted.end(), 0.0f), sorted.end());
  if (sorted.size() < 2) return "";
  std::sort(sorted.begin(), sorted.end());
  const float usual = sorted[(sorted.size() - 1) / 4];
  if (sorted.back() / kLarge <= usual) return "";
  std::vector<std::string> large;
  size_t others = 0;
  for (size_t i = 0; i < largest.size(); ++i) {
    if (largest[i] / kLarge <= usual) continue;
    if (large.size() == kMostNamed) {
      ++others;
      continue;
    }
    large.push_back(
        absl::StrFormat("%s has values up to %g", FeatureText(spec, data, i), largest[i]));
  }
  return absl::StrFormat(
      "%s%s, but others only up to %g: one scale fits all features, and makes the others nearly 0. "
      "Leave out what is a time stamp or a number of the sample, or bring the columns to a similar "
      "size beforehand",
      absl::StrJoin(large, ", "), others > 0 ? absl::StrCat(" and ", others, " more do") : "",
      usual);
}

}  // namespace

std::optional<int32_t> OnlyLabel(const DataSplit& split) {
  const absl::flat_hash_set<int32_t> labels = LabelsOf(split);
  return labels.size() == 1 ? std::make_optional(*labels.begin()) : std::nullopt;
}

std::string LabelsText(const v1::DataSpec& spec, const Dataset& data) {
  if (spec.format() == v1::DataSpec::CSV) {
    return absl::StrCat("column ", LabelColumn(spec, data), ", from 0");
  }
  return spec.format() == v1::DataSpec::IDX ? "data_labels_path" : "the first number of a line";
}

std::string LabelRemedy(const v1::DataSpec& spec) {
  return spec.format() == v1::DataSpec::CSV
             ? "pass --label_column=N if another column is the label, -1 for the last one"
             : "check that it is the right file";
}

std::string DataWarning(const v1::DataSpec& spec, const DataSplit& split) {
  const bool is_built_in = spec.format() == v1::DataSpec::DIGITS ||  //
                           spec.format() == v1::DataSpec::SYNTHETIC;
  if (is_built_in) return "";
  std::vector<std::string> warnings = {LabelWarning(spec, split), ScaleWarning(spec, split.train)};
  warnings.erase(std::remove(warnings.begin(), warnings.end(), ""), warnings.end());
  return absl::StrJoin(warnings, "; ");
}

}  // namespace capstan
