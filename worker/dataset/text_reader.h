#ifndef WORKER_DATASET_TEXT_READER_H_
#define WORKER_DATASET_TEXT_READER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// Splits a text into lines, and removes the blanks around each line. "\n" and "\r\n" end a line;
// the last line needs no end. Blank lines at the end of the text and a UTF-8 byte order mark are
// left out. Borrows the text. Not thread-safe.
class LineReader {
 public:
  // `source` names the text in errors.
  LineReader(absl::string_view text, absl::string_view source);

  // False when there are no more lines.
  bool Next(absl::string_view* line);

  // Number of the last line from Next, counted from 1.
  int64_t line_number() const { return line_number_; }

  // Number of lines left for Next.
  int64_t CountRemaining() const;

  // `status` with "source, line N: " in front.
  absl::Status AtLine(const absl::Status& status) const;

 private:
  absl::string_view rest_;
  absl::string_view source_;
  int64_t line_number_ = 0;
};

// `token` in quotes, for an error. Non-printing characters are escaped, and a long token is cut.
std::string QuoteToken(absl::string_view token);

// Reads a finite float32, with or without blanks around it. A number too small for float32 is 0.
// INVALID_ARGUMENT "expected ..., got ...".
absl::StatusOr<float> ParseFiniteFloat(absl::string_view token);

// Reads a label in 0 ... `classes` - 1, also written as "3.0". `classes` 0 means kMaxClasses.
// INVALID_ARGUMENT "expected ..., got ...".
absl::StatusOr<int32_t> ParseLabel(absl::string_view token, int classes);

// Reads the labels of one file: 0, 1, ..., or -1 and 1, which become 0 and 1. Not thread-safe.
class LabelReader {
 public:
  // `classes`: as of ParseLabel.
  explicit LabelReader(int classes) : classes_(classes) {}

  // INVALID_ARGUMENT as ParseLabel, also for -1 beside labels other than 1.
  absl::StatusOr<int32_t> Read(absl::string_view token);

 private:
  const int classes_;
  bool has_minus_one_ = false;
  bool has_other_than_one_ = false;
};

}  // namespace capstan

#endif  // WORKER_DATASET_TEXT_READER_H_
