#include "common/job/csv_columns.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

constexpr size_t kMostColumns = 65536;

absl::StatusOr<CsvColumn> ColumnOf(absl::string_view word) {
  constexpr std::pair<absl::string_view, CsvColumn> kWords[] = {
      {"label", CsvColumn::kLabel},
      {"numeric", CsvColumn::kNumeric},
      {"categorical", CsvColumn::kCategorical},
      {"ignored", CsvColumn::kIgnored}};
  for (const auto& [name, column] : kWords) {
    if (name == word) return column;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected label, numeric, categorical or ignored, got \"", word, "\""));
}

// Appends the columns of "numeric" or "numeric*13".
absl::Status AppendColumns(absl::string_view part, std::vector<CsvColumn>* columns) {
  const std::pair<absl::string_view, absl::string_view> word =
      absl::StrSplit(part, absl::MaxSplits('*', 1));
  ASSIGN_OR_RETURN(const CsvColumn column, ColumnOf(word.first));
  size_t count = 1;
  const bool has_count = word.first.size() < part.size();
  if (has_count && (!absl::SimpleAtoi(word.second, &count) || count == 0)) {
    return absl::InvalidArgumentError(absl::StrCat("expected a number of columns after \"",
                                                   word.first, "*\", got \"", word.second, "\""));
  }
  if (count > kMostColumns - columns->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at most ", kMostColumns, " columns, got more"));
  }
  columns->insert(columns->end(), count, column);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<CsvColumn>> ParseCsvColumns(absl::string_view text) {
  if (text.empty()) {
    return absl::InvalidArgumentError(
        "expected what the columns are, as in label,numeric*13,categorical*26, got nothing");
  }
  std::vector<CsvColumn> columns;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    RETURN_IF_ERROR(AppendColumns(absl::StripAsciiWhitespace(part), &columns));
  }
  const auto labels = std::count(columns.begin(), columns.end(), CsvColumn::kLabel);
  if (labels != 1) {
    return absl::InvalidArgumentError(absl::StrCat("expected one label, got ", labels));
  }
  const auto ignored = std::count(columns.begin(), columns.end(), CsvColumn::kIgnored);
  if (static_cast<size_t>(labels + ignored) == columns.size()) {
    return absl::InvalidArgumentError("expected a numeric or categorical column, got none");
  }
  return columns;
}

absl::StatusOr<char> ParseDelimiter(absl::string_view text) {
  if (text == "tab" || text == "\t" || text == "\\t") return '\t';
  const bool is_one = text.size() == 1 && absl::ascii_isprint(text[0]) && text != " ";
  if (is_one) return text[0];
  return absl::InvalidArgumentError(
      absl::StrCat("expected one character or \"tab\", got \"", PrintableText(text), "\""));
}

}  // namespace capstan
