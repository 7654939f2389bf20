#ifndef COMMON_BASE_REAL_CLOCK_H_
#define COMMON_BASE_REAL_CLOCK_H_

#include <chrono>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"

namespace capstan {

// One moment on the system's clock and on the steady one.
struct ClockReading {
  absl::Time wall;
  std::chrono::steady_clock::time_point steady;
};

// Reads the steady clock before and after the system's, several times, and returns the reading that
// took the shortest. On a busy machine a thread may be interrupted in between for milliseconds. The
// clocks of processes would then differ by as much.
ClockReading ReadBothClocks(absl::FunctionRef<absl::Time()> wall,
                            absl::FunctionRef<std::chrono::steady_clock::time_point()> steady);

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

  const ClockReading start_;

  Mutex mu_;
  CondVar changed_;
  TimerQueue timers_ ABSL_GUARDED_BY(mu_);
  TimerId running_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace capstan

#endif  // COMMON_BASE_REAL_CLOCK_H_
