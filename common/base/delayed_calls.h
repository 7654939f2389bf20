#ifndef COMMON_BASE_DELAYED_CALLS_H_
#define COMMON_BASE_DELAYED_CALLS_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace capstan {

// Makes an object's calls later, but each of them exactly once: at the latest when the object ends.
// Thread-safe.
class DelayedCalls {
 public:
  // `is_due` is false if the object ends before the call's time.
  using Call = absl::AnyInvocable<void(bool is_due)>;

  // `clock` outlives this object.
  explicit DelayedCalls(Clock* clock) : clock_(clock) {}
  ~DelayedCalls() { Stop(); }

  // Runs `call(true)` after `delay`, on the clock's thread. If Stop comes first, runs `call(false)`
  // in Stop; after Stop, at once.
  void RunAfter(absl::Duration delay, Call call);

  // Afterwards no call is running or waiting. Must not be called by a call, nor with a lock of a
  // call.
  void Stop();

 private:
  struct Waiting {
    Call call;  // null once it runs
    Clock::TimerId timer = 0;
  };

  void RunDue(uint64_t id);

  Clock* const clock_;
  Mutex mu_;
  bool is_stopped_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, Waiting> waiting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // COMMON_BASE_DELAYED_CALLS_H_
