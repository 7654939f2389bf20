#ifndef TESTS_BENCHMARK_SPARSE_KEY_LOAD_H_
#define TESTS_BENCHMARK_SPARSE_KEY_LOAD_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "tests/benchmark/common/benchmark_figures.h"

namespace capstan {

// Batches of keys of a sparse table, whose rows a worker exchanges with servers.
struct KeyLoad {
  uint64_t num_keys = 10'000'000;  // of the table
  size_t batch = 100'000;          // keys, as they come
  size_t batches = 10;
  uint32_t shards = 8;
  size_t dim = 16;  // float32 values of a row
};

// Does each step of the exchange that has to do with keys, for three kinds of keys: uniform and
// Zipf's among any uint64, and uniform among 0 ... num_keys - 1 ("dense"). Keys are drawn before
// the clock starts. Rates are in 10^6 keys a second of CPU time. Keys of a batch are counted for
// shards, groups, expansion and sums, distinct keys for lists. Beside groups, std::sort does the
// same, and beside lists the gaps are in LEB128 (..._of_...: times as fast). INTERNAL: the results
// differ.
absl::StatusOr<BenchmarkFigures> MeasureKeys(const KeyLoad& load);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_SPARSE_KEY_LOAD_H_
