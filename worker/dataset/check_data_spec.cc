#include "worker/dataset/check_data_spec.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/dataset/parse_number.h"
#include "worker/dataset/split_dataset.h"

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

}  // namespace

absl::Status CheckDataSpec(const v1::DataSpec& spec) {
  if (spec.format() == v1::DataSpec::FORMAT_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        "data.format is not set: pass --data_format=DIGITS, CSV, IDX, LIBSVM or SYNTHETIC");
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

}  // namespace capstan
