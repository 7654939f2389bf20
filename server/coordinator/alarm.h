#ifndef SERVER_COORDINATOR_ALARM_H_
#define SERVER_COORDINATOR_ALARM_H_

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace capstan {

// Calls a function at the earliest time of all requests. The function asks again for the later
// ones. May call too often. Unlike a clock's timer it needs no cancelling: it may be set under a
// lock of the function. Thread-safe.
class Alarm {
 public:
  // `clock` must outlive the alarm. `ring` runs on the clock's thread.
  Alarm(Clock& clock, absl::AnyInvocable<void()> ring) : clock_(clock), ring_(std::move(ring)) {}
  // Afterwards `ring` is not running and will not run.
  ~Alarm();

  // Does nothing for InfiniteFuture.
  void RingBy(absl::Time when);

 private:
  void Ring(absl::Time when);

  Clock& clock_;
  absl::AnyInvocable<void()> ring_;  // The clock runs one callback at a time.
  Mutex mu_;
  bool is_stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::map<absl::Time, Clock::TimerId> timers_ ABSL_GUARDED_BY(mu_);
  Clock::TimerId last_rung_ ABSL_GUARDED_BY(mu_) = 0;  // 0: none.
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_ALARM_H_
