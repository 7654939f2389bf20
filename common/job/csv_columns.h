#ifndef COMMON_JOB_CSV_COLUMNS_H_
#define COMMON_JOB_CSV_COLUMNS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// What a column of a CSV file is.
enum class CsvColumn {
  kIgnored,
  kLabel,        // 0 and 1, or -1 and 1
  kNumeric,      // a dense feature; a missing one is 0
  kCategorical,  // any text. A missing one is a category of its own
};

// The columns of a text such as "label,numeric*13,categorical*26", at most 65536.
// INVALID_ARGUMENT "expected ..., got ..." for another word or number, or without exactly one label
// and at least one feature.
absl::StatusOr<std::vector<CsvColumn>> ParseCsvColumns(absl::string_view text);

// The character between two columns: `text`, or a tab for "tab" and "\\t". INVALID_ARGUMENT for no
// or more characters, or one that has another meaning in a line.
absl::StatusOr<char> ParseDelimiter(absl::string_view text);

}  // namespace capstan

#endif  // COMMON_JOB_CSV_COLUMNS_H_
