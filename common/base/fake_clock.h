#ifndef COMMON_BASE_FAKE_CLOCK_H_
#define COMMON_BASE_FAKE_CLOCK_H_

#include <list>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"

namespace capstan {

// Stands still until the test advances it. Thread-safe.
class FakeClock : public Clock {
 public:
  // Moves time forward. Runs due timers in order on the calling thread, and wakes every waiter. The
  // caller holds no lock of a timer or of a waiter.
  void Advance(absl::Duration duration);

  absl::Time Now() const override;
  TimerId RunAt(absl::Time when, absl::AnyInvocable<void()> callback) override;
  bool Cancel(TimerId timer) override;
  bool WaitUntil(Mutex& mutex, CondVar& condition, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  using Waiter = std::pair<Mutex*, CondVar*>;

  mutable Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_) = absl::FromUnixSeconds(1'000'000'000);
  TimerQueue timers_ ABSL_GUARDED_BY(mu_);
  std::list<Waiter> waiters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // COMMON_BASE_FAKE_CLOCK_H_
