#include "worker/dataset/sparse/categorical_csv_parser.h"

#include <xxhash.h>

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/dataset/sparse/binary_label.h"
#include "worker/dataset/sparse/sparse_batch.h"
#include "worker/dataset/text_reader.h"

namespace capstan {
namespace {

class CategoricalCsvParser : public LineParser {
 public:
  explicit CategoricalCsvParser(const CategoricalCsvOptions& options) : options_(options) {}

  absl::Status Add(absl::string_view line, SparseBatch* batch) override {
    const size_t columns =
        1 + static_cast<size_t>(std::count(line.begin(), line.end(), options_.delimiter));
    if (columns != options_.columns.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected ", options_.columns.size(), " columns as declared, got ", columns,
                       ": check the columns and the character between them"));
    }
    field_ = 0;
    for (size_t column = 0; column < columns; ++column) {
      const absl::string_view text = line.substr(0, line.find(options_.delimiter));
      line.remove_prefix(std::min(text.size() + 1, line.size()));
      const absl::Status status = AddValue(column, absl::StripAsciiWhitespace(text), batch);
      if (!status.ok()) return Annotate(status, absl::StrCat("column ", column, " (from 0)"));
    }
    batch->EndSample(label_);
    return absl::OkStatus();
  }

 private:
  absl::Status AddValue(size_t column, absl::string_view text, SparseBatch* batch) {
    if (options_.columns[column] == CsvColumn::kIgnored) return absl::OkStatus();
    if (absl::StartsWith(text, "\"")) {
      return absl::InvalidArgumentError(absl::StrCat("expected a value without quotes, got ",
                                                     QuoteToken(text), ": remove the quotes"));
    }
    switch (options_.columns[column]) {
      case CsvColumn::kIgnored:
        break;
      case CsvColumn::kLabel: {
        ASSIGN_OR_RETURN(label_, labels_.Read(text));
        break;
      }
      case CsvColumn::kNumeric: {
        float value = 0;
        if (!text.empty()) {
          ASSIGN_OR_RETURN(value, ParseFiniteFloat(text));
        }
        batch->AddDense(value);
        break;
      }
      case CsvColumn::kCategorical:
        batch->AddKey(CategoryKey(column, text), 1.0f, field_++);
        break;
    }
    return absl::OkStatus();
  }

  const CategoricalCsvOptions options_;
  BinaryLabelReader labels_;
  // Of the line that is read.
  float label_ = 0;
  uint32_t field_ = 0;
};

}  // namespace

uint64_t CategoryKey(uint64_t column, absl::string_view category) {
  return XXH3_64bits_withSeed(category.data(), category.size(), column);
}

absl::StatusOr<std::unique_ptr<LineParser>> MakeCategoricalCsvParser(
    const CategoricalCsvOptions& options) {
  const auto label_columns =
      std::count(options.columns.begin(), options.columns.end(), CsvColumn::kLabel);
  if (label_columns != 1) {
    return absl::InvalidArgumentError(absl::StrCat("expected one column with the label, got ",
                                                   label_columns, ": declare each column"));
  }
  if (options.delimiter == '\n' || options.delimiter == '\r' || options.delimiter == '"') {
    return absl::InvalidArgumentError(
        "expected a character between columns such as a comma or a tab, got a quote or the end of "
        "a line");
  }
  return std::make_unique<CategoricalCsvParser>(options);
}

}  // namespace capstan
