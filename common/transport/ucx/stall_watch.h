#ifndef COMMON_TRANSPORT_UCX_STALL_WATCH_H_
#define COMMON_TRANSPORT_UCX_STALL_WATCH_H_

#include <cstdint>

#include "absl/time/time.h"

namespace capstan {

// Detects a stall: work is pending, but many attempts over a long time make no progress. Time alone
// is no proof, because the machine may have stood still. Not thread-safe.
class StallWatch {
 public:
  // A stall takes at least `looks` vain attempts over at least `time`.
  StallWatch(absl::Duration time, int64_t looks) : time_(time), looks_(looks) {}

  void NoteProgress() { looked_ = 0; }

  // Records a vain attempt at `now`. True: it is a stall.
  bool IsStalled(absl::Time now) {
    if (looked_++ == 0) since_ = now;
    return looked_ >= looks_ && now - since_ >= time_;
  }

 private:
  const absl::Duration time_;
  const int64_t looks_;
  int64_t looked_ = 0;  // vain attempts since the last progress
  absl::Time since_;    // time of the first of them
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_STALL_WATCH_H_
