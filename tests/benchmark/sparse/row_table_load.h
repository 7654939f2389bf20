#ifndef TESTS_BENCHMARK_SPARSE_ROW_TABLE_LOAD_H_
#define TESTS_BENCHMARK_SPARSE_ROW_TABLE_LOAD_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "server/sparse/row_optimizer.h"
#include "tests/benchmark/common/benchmark_figures.h"

namespace capstan {

// Work for a RowTable, and the same work for an absl::flat_hash_map from keys to indexes of rows.
struct RowTableLoad {
  size_t dim = 16;
  uint64_t num_keys = 10'000'000;
  size_t batch = 1024;
  uint64_t touches = 4'000'000;  // keys that are found, and updated, in each measurement
  RowOptimizer::Options optimizer;
};

// Inserts all keys into both, then finds and updates keys that are uniform, and then keys that
// follow Zipf's law. All keys are drawn before the clock starts. Rates are in 10^6 keys a second of
// CPU time, and times of batches are CPU time. INVALID_ARGUMENT: there is no such optimizer.
// INTERNAL: the two have different rows.
absl::StatusOr<BenchmarkFigures> MeasureRowTable(const RowTableLoad& load);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_SPARSE_ROW_TABLE_LOAD_H_
