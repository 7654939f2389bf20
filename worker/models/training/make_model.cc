#include "worker/models/training/make_model.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job/job_properties.h"

namespace capstan {
namespace {

// Two layers of this width have a weight table of 4 TiB.
constexpr uint32_t kMaxHiddenWidth = 1 << 20;

absl::Status CheckData(int features, int classes) {
  if (features < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: expected at least 1 feature, got ", features, "; check the file"));
  }
  if (classes < 2) {
    return absl::InvalidArgumentError(absl::StrCat("data: expected at least 2 classes, got ",
                                                   classes, "; check the labels and data.classes"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> MlpWidths(const v1::ModelSpec& spec, int features,
                                               int classes) {
  std::vector<int64_t> widths = {features};
  for (const uint32_t width : HiddenWidths(spec)) {
    if (width < 1 || width > kMaxHiddenWidth) {
      return absl::InvalidArgumentError(absl::StrCat("model.hidden: expected widths from 1 to ",
                                                     kMaxHiddenWidth, ", got ", width,
                                                     "; correct it in the job"));
    }
    widths.push_back(width);
  }
  widths.push_back(classes);
  return widths;
}

absl::StatusOr<std::vector<int64_t>> LogisticRegressionWidths(const v1::ModelSpec& spec,
                                                              int features, int classes) {
  if (!spec.hidden().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.hidden: expected none for LOGISTIC_REGRESSION, got ",
                     spec.hidden_size(), " layers; remove them, or set model.type to MLP"));
  }
  return std::vector<int64_t>{features, classes};
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> LayerWidths(const v1::ModelSpec& spec, int features,
                                                 int classes) {
  RETURN_IF_ERROR(CheckData(features, classes));
  switch (spec.type()) {
    case v1::ModelSpec::MLP:
      return MlpWidths(spec, features, classes);
    case v1::ModelSpec::LOGISTIC_REGRESSION:
      return LogisticRegressionWidths(spec, features, classes);
    case v1::ModelSpec::REPLAY:  // has no arithmetic
    case v1::ModelSpec::UPDATES:
    case v1::ModelSpec::PROGRAM:                     // has its own
    case v1::ModelSpec::SPARSE_LOGISTIC_REGRESSION:  // worker/sparse_training
    case v1::ModelSpec::DEEPFM:
    case v1::ModelSpec::TYPE_UNSPECIFIED:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model.type: expected MLP or LOGISTIC_REGRESSION, got ",
                   v1::ModelSpec::Type_Name(spec.type()), "; name one in the job"));
}

absl::StatusOr<Precision> PrecisionOf(const v1::ModelSpec& spec) {
  switch (spec.precision()) {
    case v1::ModelSpec::FLOAT32:
      return Precision::kFloat32;
    case v1::ModelSpec::TF32:
      return Precision::kTf32;
    case v1::ModelSpec::BFLOAT16:
      return Precision::kBfloat16;
    case v1::ModelSpec::PRECISION_UNSPECIFIED:
      break;
  }
  return absl::InvalidArgumentError(
      "model.precision: expected FLOAT32, TF32 or BFLOAT16, got PRECISION_UNSPECIFIED; name one in "
      "the job");
}

}  // namespace capstan
