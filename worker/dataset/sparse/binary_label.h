#ifndef WORKER_DATASET_SPARSE_BINARY_LABEL_H_
#define WORKER_DATASET_SPARSE_BINARY_LABEL_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// Reads the labels of one file: either 0 and 1, or -1 and 1. Not thread-safe.
class BinaryLabelReader {
 public:
  // 0 or 1; -1 becomes 0. INVALID_ARGUMENT "expected ..., got ..." for another label, or for both 0
  // and -1 in one file.
  absl::StatusOr<float> Read(absl::string_view token);

 private:
  bool has_zero_ = false;
  bool has_minus_one_ = false;
};

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_BINARY_LABEL_H_
