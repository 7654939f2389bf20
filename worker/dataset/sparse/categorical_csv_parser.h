#ifndef WORKER_DATASET_SPARSE_CATEGORICAL_CSV_PARSER_H_
#define WORKER_DATASET_SPARSE_CATEGORICAL_CSV_PARSER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/job/csv_columns.h"
#include "worker/dataset/sparse/text_sample_stream.h"

namespace capstan {

// The key of a category: XXH3-64 of `category`, with the column's number from 0 as the seed.
uint64_t CategoryKey(uint64_t column, absl::string_view category);

struct CategoricalCsvOptions {
  // Required: one for each column of the file, one of them the label. The categorical columns are
  // the fields 0, 1, ... in this order, and each has one key with the value 1.
  std::vector<CsvColumn> columns;
  // Between two columns; '\t' for files of tab-separated values. A missing value has no characters.
  char delimiter = ',';
};

// CSV without quotes. Blanks around a value do not count. INVALID_ARGUMENT for a wrong option.
absl::StatusOr<std::unique_ptr<LineParser>> MakeCategoricalCsvParser(
    const CategoricalCsvOptions& options);

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_CATEGORICAL_CSV_PARSER_H_
