#ifndef WORKER_DATASET_SPARSE_SPARSE_TEXT_PARSER_H_
#define WORKER_DATASET_SPARSE_SPARSE_TEXT_PARSER_H_

#include <cstdint>
#include <memory>

#include "worker/dataset/sparse/text_sample_stream.h"

namespace capstan {

struct SparseTextOptions {
  // The largest index that is allowed.
  uint64_t max_key = UINT64_MAX;
  // libFFM: the largest field that is allowed.
  uint32_t max_field = 65535;
};

// LIBSVM: "label index:value ...". What follows # is a comment. The key is the index, from 0.
// Indices come in any order. If an index occurs twice, the sample has its key twice. Labels are 0
// and 1, or -1 and 1. -1 becomes 0.
std::unique_ptr<LineParser> MakeLibsvmLineParser(const SparseTextOptions& options);

// libFFM: "label field:index:value ...", otherwise as LIBSVM.
std::unique_ptr<LineParser> MakeLibffmLineParser(const SparseTextOptions& options);

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_SPARSE_TEXT_PARSER_H_
