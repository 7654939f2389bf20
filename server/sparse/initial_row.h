#ifndef SERVER_SPARSE_INITIAL_ROW_H_
#define SERVER_SPARSE_INITIAL_ROW_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/base/ids.h"

namespace capstan {

// Sets the initial values of a row, 1024 or fewer: normal around 0 with standard deviation
// `stddev`, or zeros if that is 0. An element depends on (seed, table, key, element) alone. So it
// is the same on every server, whoever touches the key first.
void InitializeRow(uint64_t seed, TableId table, double stddev, uint64_t key,
                   absl::Span<float> values);

}  // namespace capstan

#endif  // SERVER_SPARSE_INITIAL_ROW_H_
