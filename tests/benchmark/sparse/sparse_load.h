#ifndef TESTS_BENCHMARK_SPARSE_SPARSE_LOAD_H_
#define TESTS_BENCHMARK_SPARSE_SPARSE_LOAD_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/random.h"

namespace capstan {

// What benchmarks of sparse tables have in common. A table has `num_keys` keys, with ids from 0 on.

// The key with an id: any uint64. Nothing about the order of ids helps to place keys.
uint64_t KeyOfId(uint64_t id);

// All keys, in the order of their ids.
std::vector<uint64_t> AllKeys(uint64_t num_keys);
// Draws `count` keys. A key may come again.
std::vector<uint64_t> UniformKeys(uint64_t count, uint64_t num_keys, Random& random);
// The same by Zipf's law with exponent 1: the key with id i is drawn in proportion to 1 / (i + 1).
std::vector<uint64_t> ZipfKeys(uint64_t count, uint64_t num_keys, Random& random);

// The time for which this thread was on a CPU. Other processes that have the CPU do not count, but
// they make the memory slower.
double CpuSeconds(absl::FunctionRef<void()> work);

// 10^6 items a second.
inline double MillionsPerSecond(uint64_t items, double seconds) {
  return static_cast<double>(items) / seconds / 1e6;
}

}  // namespace capstan

#endif  // TESTS_BENCHMARK_SPARSE_SPARSE_LOAD_H_
