#ifndef WORKER_CLIENT_SPREAD_SORT_H_
#define WORKER_CLIENT_SPREAD_SORT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace capstan {

// Sorts numbers by their place between the smallest and the largest one. It takes linear time for
// numbers that are spread evenly, also in a few clusters, and for numbers that are sorted already.
// No numbers take more than a constant times as long as with std::sort. Keeps its memory for the
// next call. Not thread-safe.
class SpreadSort {
 public:
  // Sorts less than 2^32 numbers, which are between these two.
  void Sort(absl::Span<uint64_t> numbers, uint64_t smallest, uint64_t largest);

 private:
  // Numbers that are not sorted yet. All others are in order with them.
  struct Part {
    uint64_t* numbers;
    size_t size;
    int splits;  // that led to it
  };

  // Sorts a part, or puts it into buckets.
  void Split(Part part);
  // Orders numbers by their bucket, and adds the large buckets to `parts_`.
  void PutIntoBuckets(Part part, uint64_t smallest, uint64_t largest);
  // Sets `buckets_` to the bucket of each number of `copy_`, and makes room for counts and ranks.
  void FindBuckets(uint64_t smallest, uint64_t largest, size_t bucket_count);

  std::vector<Part> parts_;
  std::vector<uint64_t> copy_;
  std::vector<uint32_t> buckets_;
  std::vector<uint32_t> ranks_;
  std::vector<uint32_t> begins_;
};

}  // namespace capstan

#endif  // WORKER_CLIENT_SPREAD_SORT_H_
