#ifndef WORKER_DATASET_CSV_READER_H_
#define WORKER_DATASET_CSV_READER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/dataset/dataset.h"

namespace capstan {

struct CsvOptions {
  // Column of the label, from 0; -1 is the last one.
  int label_column = -1;
  // The first line names the columns.
  bool has_header = false;
  // Labels must be below this; 0 means that the labels tell.
  int classes = 0;
};

// Numbers separated by commas, one sample a line, all lines as long as the first. Every error is
// one line that names `source`, the line, what was expected and what was got. `class_count` of the
// result is 1 + the largest label.
absl::StatusOr<Dataset> ParseCsv(absl::string_view text, absl::string_view source,
                                 const CsvOptions& options);

// ParseCsv of a file, plain or gzip; also the errors of ReadGzipFile.
absl::StatusOr<Dataset> ReadCsv(const std::string& path, const CsvOptions& options);

}  // namespace capstan

#endif  // WORKER_DATASET_CSV_READER_H_
