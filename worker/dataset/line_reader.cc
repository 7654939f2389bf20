#include "worker/dataset/line_reader.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace capstan {

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

}  // namespace capstan
