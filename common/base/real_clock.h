#ifndef COMMON_BASE_REAL_CLOCK_H_
#define COMMON_BASE_REAL_CLOCK_H_

#include <chrono>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"

namespace capstan {

// Starts with the system's time and is steady from then on: later changes of the system's time move
// no lease. One thread runs the timers. The destructor drops the remaining ones. Thread-safe.
class RealClock : public Clock {
 public:
  RealClock();
  ~RealClock() override;

  absl::Time Now() const override;
  TimerId RunAt(absl::Time when, absl::AnyInvocable<void()> callback) override;
  bool Cancel(TimerId timer) override;
  bool WaitUntil(Mutex& mutex, CondVar& condition, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  void RunTimers();

  const absl::Time wall_start_ = absl::Now();
  const std::chrono::steady_clock::time_point steady_start_ = std::chrono::steady_clock::now();

  Mutex mu_;
  CondVar changed_;
  TimerQueue timers_ ABSL_GUARDED_BY(mu_);
  TimerId running_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace capstan

#endif  // COMMON_BASE_REAL_CLOCK_H_
