#include "worker/dataset/sparse/binary_label.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/dataset/text_reader.h"

namespace capstan {

absl::StatusOr<float> BinaryLabelReader::Read(absl::string_view token) {
  if (token == "1") return 1.0f;
  const absl::StatusOr<float> label = ParseFiniteFloat(token);
  if (!label.ok() || (*label != 0 && *label != 1 && *label != -1)) {
    return absl::InvalidArgumentError(absl::StrCat("expected the label 0 or 1, or -1 or 1, got ",
                                                   QuoteToken(token),
                                                   ": samples of clicks have two classes"));
  }
  has_zero_ |= *label == 0;
  has_minus_one_ |= *label == -1;
  if (has_zero_ && has_minus_one_) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected labels 0 and 1, or -1 and 1, got ", QuoteToken(token),
                     " in a file with both 0 and -1: use one of the two pairs"));
  }
  return *label == 1 ? 1.0f : 0.0f;
}

}  // namespace capstan
