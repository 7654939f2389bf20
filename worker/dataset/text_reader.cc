#include "worker/dataset/text_reader.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "worker/dataset/dataset.h"

namespace capstan {
namespace {

absl::Status Unexpected(absl::string_view expected, absl::string_view token) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", expected, ", got ",
                   token.empty() ? std::string("an empty field") : QuoteToken(token)));
}

}  // namespace

LineReader::LineReader(absl::string_view text, absl::string_view source)
    : rest_(absl::StripTrailingAsciiWhitespace(absl::StripPrefix(text, "\xEF\xBB\xBF"))),
      source_(source) {}

bool LineReader::Next(absl::string_view* line) {
  if (rest_.empty()) return false;
  const size_t length = std::min(rest_.find('\n'), rest_.size());
  *line = absl::StripAsciiWhitespace(rest_.substr(0, length));
  rest_.remove_prefix(std::min(length + 1, rest_.size()));
  ++line_number_;
  return true;
}

int64_t LineReader::CountRemaining() const {
  return rest_.empty() ? 0 : 1 + std::count(rest_.begin(), rest_.end(), '\n');
}

absl::Status LineReader::AtLine(const absl::Status& status) const {
  return Annotate(status, absl::StrCat(source_, ", line ", line_number_));
}

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
  const bool is_hexadecimal = digits.find_first_of("xX") != digits.npos;  // accepted by absl
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

absl::StatusOr<int32_t> LabelReader::Read(absl::string_view token) {
  const absl::StatusOr<float> value = ParseFiniteFloat(token);
  const bool is_minus_one = value.ok() && *value == -1;
  int32_t label = 0;
  if (!is_minus_one) {
    ASSIGN_OR_RETURN(label, ParseLabel(token, classes_));
  }
  has_minus_one_ |= is_minus_one;
  has_other_than_one_ |= !is_minus_one && label != 1;
  if (!has_minus_one_ || !has_other_than_one_) return label;
  return absl::InvalidArgumentError(absl::StrCat(
      "label ", absl::StripAsciiWhitespace(token),
      " in a file that mixes -1 with labels other than +1: use either -1 and +1, or 0, 1, ..."));
}

}  // namespace capstan
