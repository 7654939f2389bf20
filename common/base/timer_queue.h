#ifndef COMMON_BASE_TIMER_QUEUE_H_
#define COMMON_BASE_TIMER_QUEUE_H_

#include <map>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace capstan {

// Timers in order of time, first come first among equals. Not thread-safe: a clock guards it.
class TimerQueue {
 public:
  using Callback = absl::AnyInvocable<void()>;

  Clock::TimerId Add(absl::Time when, Callback callback);
  // Removes the timer and returns its callback; null if there is no such timer (any more). The
  // callback's own objects may use the clock: destroy it without the clock's lock.
  Callback Remove(Clock::TimerId timer);
  // Time of the first timer; InfiniteFuture when there is none.
  absl::Time NextTime() const;
  // Removes and returns the first timer due at `now`.
  std::optional<std::pair<Clock::TimerId, Callback>> PopDue(absl::Time now);

 private:
  using Key = std::pair<absl::Time, Clock::TimerId>;
  std::map<Key, Callback> timers_;
  std::map<Clock::TimerId, absl::Time> times_;
  Clock::TimerId last_id_ = 0;
};

}  // namespace capstan

#endif  // COMMON_BASE_TIMER_QUEUE_H_
