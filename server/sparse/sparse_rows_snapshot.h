#ifndef SERVER_SPARSE_SPARSE_ROWS_SNAPSHOT_H_
#define SERVER_SPARSE_SPARSE_ROWS_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/ids.h"

namespace capstan {

// All of one shard's rows of a table. Plain values, for checkpoints and replicas.
struct SparseRowsSnapshot {
  size_t dim = 0;                    // values of a row
  size_t state_floats = 0;           // of the optimizer, in a row
  Step last_step;                    // the largest step of a call
  std::vector<uint64_t> keys;        // ascending
  std::vector<float> values;         // of each key
  std::vector<float> state;          // the optimizer's, of each key
  std::vector<uint32_t> last_touch;  // of each key; empty if rows live for ever
  std::vector<uint8_t> sketch;       // counters; empty if the first push makes a row
};

}  // namespace capstan

#endif  // SERVER_SPARSE_SPARSE_ROWS_SNAPSHOT_H_
