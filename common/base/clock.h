#ifndef COMMON_BASE_CLOCK_H_
#define COMMON_BASE_CLOCK_H_

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace capstan {

// The only source of time: the current time, timers, and waiting. Injected, so that tests and
// simulations can replace it. Thread-safe.
class Clock {
 public:
  using TimerId = uint64_t;

  virtual ~Clock() = default;

  virtual absl::Time Now() const = 0;

  // Runs `callback` once, at `when` or soon after it, on a thread of the clock's own. Callbacks run
  // one at a time, in order of time, and must not block.
  virtual TimerId RunAt(absl::Time when, absl::AnyInvocable<void()> callback) = 0;

  // Afterwards the timer's callback is not running and will not run (unless it is the caller). The
  // caller holds no lock of the callback. False when the callback had run already.
  virtual bool Cancel(TimerId timer) = 0;

  // Releases `mutex` until `condition` is notified or `deadline` is reached; may return early, so
  // call it in a loop. False when the deadline was reached.
  virtual bool WaitUntil(Mutex& mutex, CondVar& condition, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;

  TimerId RunAfter(absl::Duration delay, absl::AnyInvocable<void()> callback) {
    return RunAt(Now() + delay, std::move(callback));
  }
};

// Blocks the calling thread until `end`.
inline void SleepUntil(Clock& clock, absl::Time end) {
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  while (clock.Now() < end) clock.WaitUntil(mutex, never, end);
}

}  // namespace capstan

#endif  // COMMON_BASE_CLOCK_H_
