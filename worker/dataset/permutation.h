#ifndef WORKER_DATASET_PERMUTATION_H_
#define WORKER_DATASET_PERMUTATION_H_

#include <cstdint>
#include <vector>

#include "common/base/random.h"

namespace capstan {

// Streams of the job's seed that the data side draws from, one for each purpose; the lower 32 bits
// are free for the purpose's own use.
inline constexpr uint64_t kSyntheticStream = uint64_t{0x64617461} << 32;
inline constexpr uint64_t kSplitStream = uint64_t{0x73706c74} << 32;
inline constexpr uint64_t kBatchStream = uint64_t{0x62617463} << 32;

// 0 ... `count` - 1 in random order, each order equally likely (Fisher and Yates).
std::vector<uint32_t> RandomPermutation(uint32_t count, Random& random);

}  // namespace capstan

#endif  // WORKER_DATASET_PERMUTATION_H_
