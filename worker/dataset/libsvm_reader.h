#ifndef WORKER_DATASET_LIBSVM_READER_H_
#define WORKER_DATASET_LIBSVM_READER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/dataset/dataset.h"

namespace capstan {

struct LibsvmOptions {
  // Number of features; no index may be larger. 0 means the largest index in the file.
  uint32_t features = 0;
  // Labels must be below this; 0 means that the labels tell.
  int classes = 0;
};

// "label index:value ..." a line, indices ascending from 1, features that are left out 0. Labels
// are 0, 1, ... or, in a file that has a -1, only -1 and +1, which become 0 and 1. Every error is
// one line that names `source`, the line, what was expected and what was got. RESOURCE_EXHAUSTED
// when the samples as dense float32 take more than kMaxDenseBytes.
absl::StatusOr<Dataset> ParseLibsvm(absl::string_view text, absl::string_view source,
                                    const LibsvmOptions& options);

// ParseLibsvm of a file, plain or gzip; also the errors of ReadGzipFile.
absl::StatusOr<Dataset> ReadLibsvm(const std::string& path, const LibsvmOptions& options);

}  // namespace capstan

#endif  // WORKER_DATASET_LIBSVM_READER_H_
