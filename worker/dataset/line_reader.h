#ifndef WORKER_DATASET_LINE_READER_H_
#define WORKER_DATASET_LINE_READER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace capstan {

// The lines of a text, without the blanks around them: "\n" and "\r\n" end a line, the last one
// needs no end, blank lines at the end of the text and a UTF-8 byte order mark are left out.
// Borrows the text. Not thread-safe.
class LineReader {
 public:
  // `source` names the text in errors.
  LineReader(absl::string_view text, absl::string_view source);

  // False when there are no more lines.
  bool Next(absl::string_view* line);

  // Number of the line that Next gave last, from 1.
  int64_t line_number() const { return line_number_; }

  // How many lines Next has still to give.
  int64_t CountRemaining() const;

  // `status` with "source, line N: " in front.
  absl::Status AtLine(const absl::Status& status) const;

 private:
  absl::string_view rest_;
  absl::string_view source_;
  int64_t line_number_ = 0;
};

}  // namespace capstan

#endif  // WORKER_DATASET_LINE_READER_H_
