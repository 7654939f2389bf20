#include "worker/dataset/parse_number.h"

#include <cmath>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

absl::Status Unexpected(absl::string_view expected, absl::string_view token) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", expected, ", got ",
                   token.empty() ? std::string("an empty field") : QuoteToken(token)));
}

}  // namespace

std::string QuoteToken(absl::string_view token) {
  constexpr size_t kShownBytes = 40;
  const bool cut = token.size() > kShownBytes;
  return absl::StrCat("'", absl::CHexEscape(token.substr(0, kShownBytes)), cut ? "...'" : "'");
}

absl::StatusOr<float> ParseFiniteFloat(absl::string_view token) {
  token = absl::StripAsciiWhitespace(token);
  absl::string_view digits = token;
  if (absl::StartsWith(digits, "+") && !absl::StartsWith(digits, "+-")) digits.remove_prefix(1);
  const char* const end = digits.data() + digits.size();
  float value = 0;
  const absl::from_chars_result result = absl::from_chars(digits.data(), end, value);
  const bool is_hexadecimal = digits.find_first_of("xX") != digits.npos;  // absl takes it
  if (result.ec == std::errc::invalid_argument || result.ptr != end || is_hexadecimal) {
    return Unexpected("a number", token);
  }
  if (result.ec == std::errc::result_out_of_range) {
    if (std::abs(value) > 1) return Unexpected("a number that fits float32", token);
    return 0.0f;
  }
  if (!std::isfinite(value)) return Unexpected("a finite number", token);
  return value;
}

absl::StatusOr<int32_t> ParseLabel(absl::string_view token, int classes) {
  token = absl::StripAsciiWhitespace(token);
  // Every integer below kMaxClasses is exact in float32.
  const absl::StatusOr<float> value = ParseFiniteFloat(token);
  if (!value.ok() || *value != std::floor(*value)) return Unexpected("an integer label", token);
  if (std::abs(*value) > kMaxClasses) {
    return Unexpected(absl::StrCat("a label below ", classes > 0 ? classes : kMaxClasses), token);
  }
  RETURN_IF_ERROR(CheckLabel(static_cast<int64_t>(*value), classes));
  return static_cast<int32_t>(*value);
}

absl::Status CheckLabel(int64_t label, int classes) {
  if (label < 0) {
    return absl::InvalidArgumentError(absl::StrCat("expected a label from 0, got ", label));
  }
  if (classes > 0 && label >= classes) {
    return absl::InvalidArgumentError(absl::StrCat("expected a label below ", classes, ", got ",
                                                   label, ": pass a larger --classes, or none"));
  }
  if (label >= kMaxClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a label below ", kMaxClasses, ", got ", label));
  }
  return absl::OkStatus();
}

}  // namespace capstan
