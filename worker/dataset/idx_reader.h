#ifndef WORKER_DATASET_IDX_READER_H_
#define WORKER_DATASET_IDX_READER_H_

#include <string>

#include "absl/status/statusor.h"
#include "worker/dataset/dataset.h"

namespace capstan {

// The two files of a data set in MNIST's format, each plain or gzip.
struct IdxFiles {
  std::string images;  // magic number 0x00000803: count, rows, columns, then a byte a pixel
  std::string labels;  // magic number 0x00000801: count, then a byte a label
};

// Pixels stay 0 ... 255. Every label is below `classes`. If `classes` is 0, the largest label
// decides. Errors name the file. They are those of ReadGzipFile, INVALID_ARGUMENT for a wrong magic
// number, a wrong length or different counts, and DATA_LOSS for a truncated file.
absl::StatusOr<Dataset> ReadIdx(const IdxFiles& files, int classes);

}  // namespace capstan

#endif  // WORKER_DATASET_IDX_READER_H_
