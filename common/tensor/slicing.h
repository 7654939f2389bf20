#ifndef COMMON_TENSOR_SLICING_H_
#define COMMON_TENSOR_SLICING_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/base/ids.h"

namespace capstan {

// The largest slice. A slice is sent as one message.
inline constexpr uint64_t kMaxSliceBytes = uint64_t{64} << 20;
// Most arrays of a program's optimizer's state that servers hold beside the parameters.
inline constexpr size_t kMaxTableStateArrays = 16;

// A contiguous part of a dense tensor, in elements.
struct SliceRange {
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Cuts a tensor of float32 elements into slices of at most `slice_bytes`. Every slice before the
// last is full.
class Slicing {
 public:
  Slicing(uint64_t elements, uint64_t slice_bytes)
      : elements_(elements), slice_elements_(std::max<uint64_t>(1, slice_bytes / sizeof(float))) {}

  uint64_t elements() const { return elements_; }
  uint32_t slice_count() const {
    return static_cast<uint32_t>((elements_ + slice_elements_ - 1) / slice_elements_);
  }
  // `slice` < slice_count().
  SliceRange Range(SliceIndex slice) const {
    const uint64_t offset = slice.value() * slice_elements_;
    return {offset, std::min(slice_elements_, elements_ - offset)};
  }

 private:
  uint64_t elements_;
  uint64_t slice_elements_;
};

// Names one slice of one table of the job. A sparse table has a slice in each shard: RowsIn.
struct SliceKey {
  TableId table;
  SliceIndex slice;

  friend bool operator==(SliceKey a, SliceKey b) {
    return a.table == b.table && a.slice == b.slice;
  }
  friend bool operator!=(SliceKey a, SliceKey b) { return !(a == b); }
  friend bool operator<(SliceKey a, SliceKey b) {
    return a.table != b.table ? a.table < b.table : a.slice < b.slice;
  }
  template <typename H>
  friend H AbslHashValue(H hash, SliceKey key) {
    return H::combine(std::move(hash), key.table, key.slice);
  }
};

// The rows of a sparse table that are in one shard.
constexpr SliceKey RowsIn(ShardId shard, TableId table) {
  return {table, SliceIndex(shard.value())};
}

}  // namespace capstan

#endif  // COMMON_TENSOR_SLICING_H_
