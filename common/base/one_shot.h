#ifndef COMMON_BASE_ONE_SHOT_H_
#define COMMON_BASE_ONE_SHOT_H_

#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace capstan {

// A value that one thread sets, once, and another waits for; later values are ignored. Thread-safe.
template <typename T>
class OneShot {
 public:
  explicit OneShot(Clock* clock) : clock_(clock) {}

  void Set(T value) {
    MutexLock lock(&mu_);
    if (!value_.has_value()) value_ = std::move(value);
    is_set_.NotifyAll();
  }

  bool is_set() const {
    MutexLock lock(&mu_);
    return value_.has_value();
  }

  // Takes the value out; called once.
  T Wait() {
    MutexLock lock(&mu_);
    while (!value_.has_value()) clock_->WaitUntil(mu_, is_set_, absl::InfiniteFuture());
    return *std::move(value_);
  }

 private:
  Clock* const clock_;
  mutable Mutex mu_;
  CondVar is_set_;
  std::optional<T> value_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // COMMON_BASE_ONE_SHOT_H_
