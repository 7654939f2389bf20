#ifndef COMMON_TRANSPORT_UCX_STALL_WATCH_H_
#define COMMON_TRANSPORT_UCX_STALL_WATCH_H_

#include <cstdint>

#include "absl/time/time.h"

namespace capstan {

// Tells when there has been something to do for too long without anything being done. Time alone
// does not count: a machine that stood still has not looked. Not thread-safe.
class StallWatch {
 public:
  // Stalled: in vain for `time` at least, and `looks` times.
  StallWatch(absl::Duration time, int64_t looks) : time_(time), looks_(looks) {}

  void NoteProgress() { looked_ = 0; }

  // There is something to do, and it could not be done at `now`. True when that makes it a stall.
  bool IsStalled(absl::Time now) {
    if (looked_++ == 0) since_ = now;
    return looked_ >= looks_ && now - since_ >= time_;
  }

 private:
  const absl::Duration time_;
  const int64_t looks_;
  int64_t looked_ = 0;  // in vain, since the last progress
  absl::Time since_;    // of the first of them
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_STALL_WATCH_H_
