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
  // Every label is below this. 0: the largest label decides.
  int classes = 0;
};

// Reads numbers separated by commas, one sample a line, with or without quotes (RFC 4180). Every
// line has as many columns as the first. Labels are 0, 1, ..., or -1 and 1, which become 0 and 1.
// `class_count` of the result is 1 + the largest label. An error is one line of text: `source`, the
// number of the line, the expected and the actual text.
absl::StatusOr<Dataset> ParseCsv(absl::string_view text, absl::string_view source,
                                 const CsvOptions& options);

// ParseCsv of a file, plain or gzip; also the errors of ReadGzipFile.
absl::StatusOr<Dataset> ReadCsv(const std::string& path, const CsvOptions& options);

}  // namespace capstan

#endif  // WORKER_DATASET_CSV_READER_H_
