#ifndef COMMON_BASE_BACKGROUND_THREAD_H_
#define COMMON_BASE_BACKGROUND_THREAD_H_

#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace capstan {

// Runs functions one after the other on a thread of its own. Thread-safe.
class BackgroundThread {
 public:
  // `clock` must outlive the thread.
  explicit BackgroundThread(Clock* clock) : clock_(*clock), thread_([this] { Run(); }) {}
  ~BackgroundThread() { Stop(); }

  // Does nothing after Stop.
  void Add(absl::AnyInvocable<void()> work) {
    MutexLock lock(&mu_);
    if (!is_stopping_) queue_.push_back(std::move(work));
    changed_.NotifyAll();
  }

  // Waits for the running function, and drops the others.
  void Stop() {
    {
      MutexLock lock(&mu_);
      is_stopping_ = true;
      changed_.NotifyAll();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Run() {
    while (true) {
      absl::AnyInvocable<void()> work;
      {
        MutexLock lock(&mu_);
        while (!is_stopping_ && queue_.empty()) {
          clock_.WaitUntil(mu_, changed_, absl::InfiniteFuture());
        }
        if (is_stopping_) return;
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      work();
    }
  }

  Clock& clock_;
  Mutex mu_;
  CondVar changed_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;  // Last, because it uses all members above.
};

}  // namespace capstan

#endif  // COMMON_BASE_BACKGROUND_THREAD_H_
