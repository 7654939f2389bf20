#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/codec/bfloat16_codec.h"
#include "common/codec/codec.h"
#include "common/codec/float32_codec.h"
#include "common/codec/int8_codec.h"
#include "common/codec/topk_codec.h"

namespace capstan {
namespace {

using CodecPtr = std::shared_ptr<const Codec>;

// Null for another text.
CodecPtr MakeValueCodec(absl::string_view text) {
  if (text == "float32") return MakeFloat32Codec();
  if (text == "bfloat16") return MakeBfloat16Codec();
  if (text == "int8") return MakeInt8Codec();
  return nullptr;
}

// The R of topk:R; 0 for a text that is none. Only digits are a count: 1.0 could be meant as a
// ratio.
double ParseRatioOrCount(absl::string_view text) {
  constexpr absl::string_view kDigits = "0123456789";
  uint32_t count = 0;
  if (text.find_first_not_of(kDigits) == text.npos) {
    return absl::SimpleAtoi(text, &count) ? count : 0;
  }
  double ratio = 0;
  const bool is_number = kDigits.find(text[0]) != kDigits.npos &&
                         text.find_first_not_of("0123456789.e-") == text.npos &&
                         absl::SimpleAtod(text, &ratio);
  return is_number && ratio < 1 ? ratio : 0;
}

absl::StatusOr<CodecPtr> MakeTopk(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  const CodecPtr values = parts.size() == 2 ? MakeFloat32Codec() : MakeValueCodec(parts[2]);
  const double ratio_or_count = ParseRatioOrCount(parts[1]);
  if (parts.size() > 3 || values == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected float32, bfloat16 or int8 for the values of topk, got \"", text, "\""));
  }
  if (ratio_or_count == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a ratio between 0 and 1 for topk, as in topk:0.01, or a whole "
                     "number of values up to ",
                     UINT32_MAX, ", got \"", text, "\""));
  }
  return MakeTopkCodec(ratio_or_count, values);
}

}  // namespace

absl::StatusOr<CodecPtr> MakeCodec(absl::string_view text) {
  if (absl::StartsWith(text, "topk:")) return MakeTopk(text);
  CodecPtr codec = MakeValueCodec(text);
  if (codec != nullptr) return codec;
  return absl::InvalidArgumentError(absl::StrCat(
      "expected float32, bfloat16, int8, topk:R or topk:R:VALUES, got \"", text, "\""));
}

}  // namespace capstan
