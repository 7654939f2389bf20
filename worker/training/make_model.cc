#include "worker/training/make_model.h"

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/training/mlp.h"

namespace capstan {
namespace {

// Two layers of this width have a weight table of 4 TiB.
constexpr uint32_t kMaxHiddenWidth = 1 << 20;
constexpr uint32_t kDefaultHidden[] = {128, 64};

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

absl::StatusOr<std::unique_ptr<Model>> MakeMlp(const v1::ModelSpec& spec, int features,
                                               int classes) {
  std::vector<int64_t> widths = {features};
  if (spec.hidden().empty()) {
    widths.insert(widths.end(), std::begin(kDefaultHidden), std::end(kDefaultHidden));
  }
  for (const uint32_t width : spec.hidden()) {
    if (width < 1 || width > kMaxHiddenWidth) {
      return absl::InvalidArgumentError(absl::StrCat("model.hidden: expected widths from 1 to ",
                                                     kMaxHiddenWidth, ", got ", width,
                                                     "; correct it in the job"));
    }
    widths.push_back(width);
  }
  widths.push_back(classes);
  return std::make_unique<Mlp>(std::move(widths));
}

absl::StatusOr<std::unique_ptr<Model>> MakeLogisticRegression(const v1::ModelSpec& spec,
                                                              int features, int classes) {
  if (!spec.hidden().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.hidden: expected none for LOGISTIC_REGRESSION, got ",
                     spec.hidden_size(), " layers; remove them, or set model.type to MLP"));
  }
  return std::make_unique<Mlp>(std::vector<int64_t>{features, classes});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> MakeModel(const v1::ModelSpec& spec, int features,
                                                 int classes) {
  RETURN_IF_ERROR(CheckData(features, classes));
  switch (spec.type()) {
    case v1::ModelSpec::MLP:
      return MakeMlp(spec, features, classes);
    case v1::ModelSpec::LOGISTIC_REGRESSION:
      return MakeLogisticRegression(spec, features, classes);
    case v1::ModelSpec::TYPE_UNSPECIFIED:
      break;
  }
  return absl::InvalidArgumentError(
      "model.type: expected MLP or LOGISTIC_REGRESSION, got TYPE_UNSPECIFIED; name one in the job");
}

}  // namespace capstan
