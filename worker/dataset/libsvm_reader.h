#ifndef WORKER_DATASET_LIBSVM_READER_H_
#define WORKER_DATASET_LIBSVM_READER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/dataset/dataset.h"

namespace capstan {

struct LibsvmOptions {
  // Number of features; no index may be larger. 0: the largest index in the (training) file
  // decides.
  uint32_t features = 0;
  // Every label is below this. 0: the largest label decides.
  int classes = 0;
};

// Reads a sample a line: "label index:value ...". What follows # is a comment. Indices ascend from
// 1; or from 0 if one is 0, as scikit-learn writes them. A missing feature is 0. Labels are 0, 1,
// ..., or all of them are -1 and +1; these become 0 and 1. An error is one line of text: `source`,
// the number of the line, the expected and the actual text. RESOURCE_EXHAUSTED when the samples as
// dense float32 take more than kMaxDenseBytes.
absl::StatusOr<Dataset> ParseLibsvm(absl::string_view text, absl::string_view source,
                                    const LibsvmOptions& options);

// ParseLibsvm of a file, plain or gzip; also the errors of ReadGzipFile.
absl::StatusOr<Dataset> ReadLibsvm(const std::string& path, const LibsvmOptions& options);

// The same for two files, whose indices begin at the same number, and which have as many features
// as the first one.
absl::StatusOr<DataSplit> ReadLibsvmSplit(const std::string& train_path,
                                          const std::string& test_path,
                                          const LibsvmOptions& options);

}  // namespace capstan

#endif  // WORKER_DATASET_LIBSVM_READER_H_
