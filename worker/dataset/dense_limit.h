#ifndef WORKER_DATASET_DENSE_LIMIT_H_
#define WORKER_DATASET_DENSE_LIMIT_H_

#include <cstdint>

#include "absl/status/status.h"

namespace capstan {

// Most memory that the features of one file may take.
inline constexpr int64_t kMaxDenseBytes = int64_t{8} << 30;

// RESOURCE_EXHAUSTED when a dense float32 matrix of that shape takes more than kMaxDenseBytes, or
// when `columns` does not fit an int. Called before the memory is asked for.
absl::Status CheckDenseSize(uint64_t rows, uint64_t columns);

}  // namespace capstan

#endif  // WORKER_DATASET_DENSE_LIMIT_H_
