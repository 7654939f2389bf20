#ifndef COMMON_HISTORY_CHECK_VERSION_BOUNDS_H_
#define COMMON_HISTORY_CHECK_VERSION_BOUNDS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/ids.h"
#include "common/history/check/contract.h"
#include "common/history/check/history_index.h"

namespace capstan {

// Which versions of a slice its pushes allow, where each application is one: under BSP a step that
// holds an update, once min_step is beyond it; else each push. What is pushed for such a step while
// an earlier BSP step is open is kept until that one is complete. Immutable, hence thread-safe.
class VersionBounds {
 public:
  VersionBounds(const SliceHistory& slice, const Contract& contract);

  // Certainly applied when `min_step` was reported for what was asked at `asked_ns`.
  uint64_t Least(Step min_step, int64_t asked_ns) const;
  // Possibly applied when `min_step` was reported at `answered_ns`.
  uint64_t Most(Step min_step, int64_t answered_ns) const;

 private:
  // As an index of what is kept for each step up to the last one's successor.
  size_t IndexOf(Step step) const;

  std::vector<uint64_t> whole_below_;         // of step i: number of BSP steps below
  std::vector<int64_t> next_whole_;           // of step i: itself or the next BSP step
  std::vector<uint64_t> acknowledged_below_;  // of step i: BSP steps below with such an update
  // Of pushes of other steps, in order.
  std::vector<int64_t> sent_ns_;
  std::map<int64_t, std::vector<int64_t>> acknowledged_ns_;  // by the next BSP step
};

}  // namespace capstan

#endif  // COMMON_HISTORY_CHECK_VERSION_BOUNDS_H_
