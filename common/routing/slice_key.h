#ifndef COMMON_ROUTING_SLICE_KEY_H_
#define COMMON_ROUTING_SLICE_KEY_H_

#include <utility>

#include "common/base/ids.h"

namespace capstan {

// Names one slice of one table of the job.
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

}  // namespace capstan

#endif  // COMMON_ROUTING_SLICE_KEY_H_
