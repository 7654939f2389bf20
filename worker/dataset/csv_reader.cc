#include "worker/dataset/csv_reader.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/dataset/dataset.h"
#include "worker/dataset/gzip_file.h"
#include "worker/dataset/text_reader.h"

namespace capstan {
namespace {

constexpr absl::string_view kBlanks = " \t";

// The length of the first field of `line`. A field in quotes may hold commas, and two quotes that
// stand for one (RFC 4180). npos: the quotes do not end, or something else follows them.
size_t FieldLength(absl::string_view line) {
  const size_t begin = std::min(line.find_first_not_of(kBlanks), line.size());
  if (line.substr(begin, 1) != "\"") return std::min(line.find(','), line.size());
  size_t end = line.find('"', begin + 1);
  while (end != line.npos && line.substr(end + 1, 1) == "\"") end = line.find('"', end + 2);
  if (end == line.npos) return line.npos;
  const size_t comma = std::min(line.find_first_not_of(kBlanks, end + 1), line.size());
  return comma == line.size() || line[comma] == ',' ? comma : line.npos;
}

// 0: a field's quotes are wrong.
int64_t CountColumns(absl::string_view line) {
  if (line.find('"') == line.npos) return 1 + std::count(line.begin(), line.end(), ',');
  int64_t columns = 1;
  for (size_t length = FieldLength(line); length != line.size(); length = FieldLength(line)) {
    if (length == line.npos) return 0;
    line.remove_prefix(length + 1);
    ++columns;
  }
  return columns;
}

// Removes the text before the first comma, and the comma, from `line`. CountColumns is not 0.
absl::string_view TakeField(absl::string_view* line) {
  const size_t length = FieldLength(*line);
  absl::string_view field = line->substr(0, length);
  line->remove_prefix(std::min(length + 1, line->size()));
  if (field.find('"') == field.npos) return field;
  field = absl::StripAsciiWhitespace(field);
  return absl::StartsWith(field, "\"") ? field.substr(1, field.size() - 2) : field;
}

// Reads the line of names. A name in quotes may hold newlines.
absl::Status SkipHeader(LineReader& lines) {
  absl::string_view line;
  if (!lines.Next(&line) || CountColumns(line) > 0) return absl::OkStatus();
  const LineReader at_first_line = lines;
  auto quotes = std::count(line.begin(), line.end(), '"');
  while (quotes % 2 == 1) {
    if (!lines.Next(&line)) {
      return at_first_line.AtLine(absl::InvalidArgumentError(
          "expected a quote at the end of each name that begins with one, got none in the rest of "
          "the file"));
    }
    quotes += std::count(line.begin(), line.end(), '"');
  }
  return absl::OkStatus();
}

// Collects the rows of one file. Not thread-safe.
class RowParser {
 public:
  explicit RowParser(const CsvOptions& options) : options_(options), labels_(options.classes) {}

  // Takes the number of columns from the first row, and reserves memory for `row_count` rows.
  absl::Status Start(absl::string_view first_row, int64_t line_number, int64_t row_count) {
    first_line_ = line_number;
    columns_ = CountColumns(first_row);
    if (columns_ == 0) return WrongQuotes();
    if (columns_ < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected at least 2 columns separated by commas, got ",
                       QuoteToken(first_row), ": is the file CSV?"));
    }
    label_column_ = options_.label_column == -1 ? columns_ - 1 : options_.label_column;
    if (label_column_ < 0 || label_column_ >= columns_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "label column ", options_.label_column, " does not exist, the file has ", columns_,
          " columns: pass --label_column from 0 to ", columns_ - 1, ", or -1 for the last one"));
    }
    const uint64_t feature_count = static_cast<uint64_t>(columns_ - 1);
    RETURN_IF_ERROR(CheckDenseSize(static_cast<uint64_t>(row_count), feature_count));
    data_.feature_count = static_cast<int>(feature_count);
    data_.features.reserve(static_cast<uint64_t>(row_count) * feature_count);
    data_.labels.reserve(static_cast<size_t>(row_count));
    return absl::OkStatus();
  }

  absl::Status AddRow(absl::string_view row) {
    if (row.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("expected ", columns_, " columns as in line ",
                                                     first_line_, ", got a blank line"));
    }
    const int64_t columns = CountColumns(row);
    if (columns == 0) return WrongQuotes();
    if (columns != columns_) {
      return absl::InvalidArgumentError(absl::StrCat("expected ", columns_, " columns as in line ",
                                                     first_line_, ", got ", columns));
    }
    for (int64_t column = 0; column < columns_; ++column) {
      const absl::Status status = AddField(column, TakeField(&row));
      if (!status.ok()) return Annotate(status, absl::StrCat("column ", column, " (from 0)"));
    }
    return absl::OkStatus();
  }

  Dataset Finish() && { return std::move(data_); }

 private:
  static absl::Status WrongQuotes() {
    return absl::InvalidArgumentError(
        "expected quotes at both ends of a field in one line, as in \"1.5\",\"2\", got others");
  }

  absl::Status AddField(int64_t column, absl::string_view field) {
    if (column == label_column_) {
      ASSIGN_OR_RETURN(const int32_t label, labels_.Read(field));
      data_.labels.push_back(label);
      data_.class_count = std::max(data_.class_count, label + 1);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const float value, ParseFiniteFloat(field));
    data_.features.push_back(value);
    return absl::OkStatus();
  }

  const CsvOptions options_;
  LabelReader labels_;
  int64_t first_line_ = 0;
  int64_t columns_ = 0;
  int64_t label_column_ = 0;
  Dataset data_;
};

}  // namespace

absl::StatusOr<Dataset> ParseCsv(absl::string_view text, absl::string_view source,
                                 const CsvOptions& options) {
  LineReader lines(text, source);
  absl::string_view line;
  if (options.has_header) RETURN_IF_ERROR(SkipHeader(lines));
  const int64_t row_count = lines.CountRemaining();
  if (!lines.Next(&line)) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": expected at least one sample, got ",
        lines.line_number() == 0 ? "an empty file" : "nothing after the line of column names"));
  }
  RowParser parser(options);
  absl::Status status = parser.Start(line, lines.line_number(), row_count);
  // A name in quotes may hold a newline.
  const bool may_be_names = status.ok() || CountColumns(line) == 0;
  if (status.ok()) status = parser.AddRow(line);
  if (!status.ok() && may_be_names && !options.has_header) {
    return lines.AtLine(absl::Status(
        status.code(), absl::StrCat(status.message(),
                                    " (if the first line names the columns, give --has_header)")));
  }
  while (status.ok() && lines.Next(&line)) status = parser.AddRow(line);
  if (!status.ok()) return lines.AtLine(status);
  return std::move(parser).Finish();
}

absl::StatusOr<Dataset> ReadCsv(const std::string& path, const CsvOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, ReadGzipFile(path, kTextLimits));
  return ParseCsv(text, absl::StrCat("data file ", path), options);
}

}  // namespace capstan
