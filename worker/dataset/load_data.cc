#include "worker/dataset/load_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/dataset/built_in_data.h"
#include "worker/dataset/csv_reader.h"
#include "worker/dataset/data_warning.h"
#include "worker/dataset/dataset.h"
#include "worker/dataset/idx_reader.h"
#include "worker/dataset/libsvm_reader.h"

namespace capstan {
namespace {

struct PathField {
  absl::string_view field;
  absl::string_view flag;
  const std::string& value;
  bool is_read;      // by this format
  bool is_required;  // by this format and the other paths
};

absl::Status CheckPath(const PathField& path, absl::string_view format) {
  if (path.is_required && path.value.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path.field, " is required for format ", format,
                                                   ": pass ", path.flag, "=FILE"));
  }
  if (!path.is_read && !path.value.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.field, " is ", path.value, ", but format ", format, " does not read it: leave ",
        path.flag, " out, or pass another --data_format (CSV, IDX, LIBSVM)"));
  }
  return absl::OkStatus();
}

absl::Status CheckPaths(const v1::DataSpec& spec) {
  const bool is_built_in = spec.format() == v1::DataSpec::DIGITS ||  //
                           spec.format() == v1::DataSpec::SYNTHETIC;
  const bool is_idx = spec.format() == v1::DataSpec::IDX;
  const bool has_test = !spec.test_path().empty() || !spec.test_labels_path().empty();
  const PathField paths[] = {
      {"data.path", "--data_path", spec.path(), !is_built_in, !is_built_in},
      {"data.labels_path", "--data_labels_path", spec.labels_path(), is_idx, is_idx},
      {"data.test_labels_path", "--test_labels_path", spec.test_labels_path(), is_idx,
       is_idx && has_test},
      {"data.test_path", "--test_path", spec.test_path(), !is_built_in, is_idx && has_test},
  };
  for (const PathField& path : paths) {
    RETURN_IF_ERROR(CheckPath(path, v1::DataSpec::Format_Name(spec.format())));
  }
  return absl::OkStatus();
}

// The source of one set of samples.
struct Source {
  const std::string& path;
  const std::string& labels_path;
};

absl::StatusOr<Dataset> ReadSamples(const v1::DataSpec& spec, const Source& source, uint64_t seed) {
  const int classes = static_cast<int>(spec.classes());
  switch (spec.format()) {
    case v1::DataSpec::DIGITS:
      return MakeDigits();
    case v1::DataSpec::CSV:
      return ReadCsv(source.path, {spec.label_column(), spec.has_header(), classes});
    case v1::DataSpec::IDX:
      return ReadIdx({source.path, source.labels_path}, classes);
    case v1::DataSpec::LIBSVM:
      return ReadLibsvm(source.path, {spec.features(), classes});
    case v1::DataSpec::SYNTHETIC:
      return MakeSynthetic(spec.synthetic(), seed);
    case v1::DataSpec::LIBFFM:         // worker/dataset/sparse
    case v1::DataSpec::SYNTHETIC_CTR:  // the same
    case v1::DataSpec::FORMAT_UNSPECIFIED:
      break;
  }
  return absl::InvalidArgumentError("data.format is not set");
}

absl::StatusOr<DataSplit> ReadBothFiles(const v1::DataSpec& spec, uint64_t seed) {
  if (spec.format() == v1::DataSpec::LIBSVM) {
    const int classes = static_cast<int>(spec.classes());
    return ReadLibsvmSplit(spec.path(), spec.test_path(), {spec.features(), classes});
  }
  DataSplit split;
  ASSIGN_OR_RETURN(split.train, ReadSamples(spec, {spec.path(), spec.labels_path()}, seed));
  ASSIGN_OR_RETURN(split.test,
                   ReadSamples(spec, {spec.test_path(), spec.test_labels_path()}, seed));
  if (split.test.feature_count != split.train.feature_count) {
    return absl::InvalidArgumentError(
        absl::StrCat("test file has ", split.test.feature_count,
                     " features, the training file has ", split.train.feature_count, ": ",
                     spec.test_path(), " and ", spec.path(), " must have the same features"));
  }
  return split;
}

absl::Status SetClassCount(const v1::DataSpec& spec, DataSplit* split) {
  const int in_data = std::max(split->train.class_count, split->test.class_count);
  const int classes = spec.classes() == 0 ? in_data : static_cast<int>(spec.classes());
  if (in_data > classes) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected labels below data.classes ", classes, ", but format ",
                     v1::DataSpec::Format_Name(spec.format()), " has ", in_data,
                     " classes: pass a larger --classes, or none"));
  }
  if (const std::optional<int32_t> label = OnlyLabel(*split); label && spec.classes() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected samples of at least 2 classes, but every label is ", *label, " (",
                     LabelsText(spec, split->train), "): ", LabelRemedy(spec)));
  }
  split->train.class_count = classes;
  split->test.class_count = classes;
  return absl::OkStatus();
}

double LargestMagnitude(const Dataset& data) {
  float largest = 0;
  for (const float feature : data.features) largest = std::max(largest, std::abs(feature));
  return largest;
}

absl::Status ScaleFeatures(double feature_scale, DataSplit* split) {
  const double train_largest = LargestMagnitude(split->train);
  const double largest = std::max(train_largest, LargestMagnitude(split->test));
  double scale = feature_scale;
  if (scale == 0) scale = train_largest > 0 ? 1 / train_largest : 1;
  if (largest * scale > std::numeric_limits<float>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("features up to ", largest, " times the scale ", scale,
                     " do not fit float32: pass a smaller --feature_scale"));
  }
  for (Dataset* data : {&split->train, &split->test}) {
    // In double: 1 / a tiny number need not fit float32.
    for (float& feature : data->features) feature = static_cast<float>(feature * scale);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDataSpec(const v1::DataSpec& spec) {
  if (spec.format() == v1::DataSpec::FORMAT_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        "data.format is not set: pass --data_format=DIGITS, CSV, IDX, LIBSVM or SYNTHETIC");
  }
  if (spec.format() == v1::DataSpec::LIBFFM || spec.format() == v1::DataSpec::SYNTHETIC_CTR) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected data that fit into memory, got the format ",
        v1::DataSpec::Format_Name(spec.format()),
        ", which only --model=sparse_logistic_regression and deepfm read: choose one of them"));
  }
  RETURN_IF_ERROR(CheckPaths(spec));
  if (spec.test_path().empty()) RETURN_IF_ERROR(CheckTestFraction(spec.test_fraction()));
  if (spec.classes() == 1 || spec.classes() > kMaxClasses) {
    return absl::InvalidArgumentError(absl::StrCat("expected data.classes from 2 to ", kMaxClasses,
                                                   ", or 0 for what the data ", "has, got ",
                                                   spec.classes(), ": pass another --classes"));
  }
  if (spec.label_column() < -1) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected data.label_column from 0, or -1 for the last column, got ",
                     spec.label_column(), ": pass another --label_column"));
  }
  if (!std::isfinite(spec.feature_scale()) || spec.feature_scale() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a finite data.feature_scale above 0, or 0 for 1 / the largest ",
                     "|feature|, got ", spec.feature_scale()));
  }
  return absl::OkStatus();
}

absl::StatusOr<DataSplit> LoadData(const v1::DataSpec& spec, uint64_t seed) {
  RETURN_IF_ERROR(CheckDataSpec(spec));
  DataSplit split;
  if (spec.test_path().empty()) {
    ASSIGN_OR_RETURN(const Dataset data,
                     ReadSamples(spec, {spec.path(), spec.labels_path()}, seed));
    ASSIGN_OR_RETURN(split, SplitDataset(data, spec.test_fraction(), seed));
  } else {
    ASSIGN_OR_RETURN(split, ReadBothFiles(spec, seed));
  }
  RETURN_IF_ERROR(SetClassCount(spec, &split));
  split.warning = DataWarning(spec, split);
  RETURN_IF_ERROR(ScaleFeatures(spec.feature_scale(), &split));
  return split;
}

}  // namespace capstan
