#ifndef SERVER_SHARD_INITIALIZER_H_
#define SERVER_SHARD_INITIALIZER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/base/ids.h"

namespace capstan {

// Fills `values`, the elements [offset, offset + values.size()) of a table, with what they are
// before the first update: normal with `stddev` around 0. Each element depends on (seed, table,
// element) alone, so that it is the same however the table is sliced.
void InitializeValues(uint64_t seed, TableId table, double stddev, uint64_t offset,
                      absl::Span<float> values);

}  // namespace capstan

#endif  // SERVER_SHARD_INITIALIZER_H_
