#ifndef COMMON_HISTORY_CHECK_VERSION_BOUNDS_H_
#define COMMON_HISTORY_CHECK_VERSION_BOUNDS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/ids.h"
#include "common/history/check/contract.h"
#include "common/history/check/history_index.h"

namespace capstan {

// The possible versions of a slice, given its pushes. Each application makes a version. A BSP step
// with an update is applied once, when min_step has passed it. Other pushes are applied one by one;
// while an earlier BSP step is open, a server may keep them. Pushes without a gradient are no
// updates. Immutable, hence thread-safe.
class VersionBounds {
 public:
  VersionBounds(const SliceHistory& slice, const Contract& contract);

  // The least version in a reply with `min_step` to a request of `asked_ns`.
  uint64_t Least(Step min_step, int64_t asked_ns) const;
  // The largest version in a reply with `min_step` at `answered_ns`.
  uint64_t Most(Step min_step, int64_t answered_ns) const;

 private:
  // Steps that follow one another and are alike: one with pushes, or some without, as workers that
  // enter leave some out, of the same promise.
  struct Range {
    int64_t begin = 0;
    bool counts = false;              // steps of BSP, unless all their known pushes are empty
    uint64_t whole_below = 0;         // steps before `begin` that count
    uint64_t acknowledged_below = 0;  // steps of BSP before it with an acknowledged push
    int64_t next_whole = 0;           // `begin`, or the next step of BSP
  };

  const Range& RangeOf(Step step) const;

  std::vector<Range> ranges_;  // ascending, from step 0 on
  // Times of the pushes of other steps, ascending.
  std::vector<int64_t> sent_ns_;
  std::map<int64_t, std::vector<int64_t>> acknowledged_ns_;  // by the next BSP step
};

}  // namespace capstan

#endif  // COMMON_HISTORY_CHECK_VERSION_BOUNDS_H_
