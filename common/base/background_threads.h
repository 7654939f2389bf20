#ifndef COMMON_BASE_BACKGROUND_THREADS_H_
#define COMMON_BASE_BACKGROUND_THREADS_H_

#include <cstddef>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace capstan {

// Runs functions on threads of its own, the oldest first. With one thread they run one after the
// other. Thread-safe.
class BackgroundThreads {
 public:
  // `clock` must outlive the threads.
  BackgroundThreads(Clock* clock, size_t num_threads) : clock_(*clock) {
    for (size_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Run(); });
  }
  ~BackgroundThreads() { Stop(); }

  // Does nothing after Stop.
  void Add(absl::AnyInvocable<void()> work) {
    MutexLock lock(&mu_);
    if (!is_stopping_) queue_.push_back(std::move(work));
    changed_.NotifyAll();
  }

  // Waits for the running functions, and drops the others.
  void Stop() {
    {
      MutexLock lock(&mu_);
      is_stopping_ = true;
      changed_.NotifyAll();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
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

  std::vector<std::thread> threads_;  // Last, because they use all members above.
};

}  // namespace capstan

#endif  // COMMON_BASE_BACKGROUND_THREADS_H_
