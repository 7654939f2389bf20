#ifndef COMMON_BASE_MUTEX_H_
#define COMMON_BASE_MUTEX_H_

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace capstan {

// std::mutex with lock annotations, checked by clang. ThreadSanitizer understands it, but not
// Debian's absl::Mutex.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  // False: somebody holds it.
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a Mutex for its own lifetime.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// A condition variable. Clock::WaitUntil waits for it, so that time can be virtual. Only clocks
// call the two Wait methods.
class CondVar {
 public:
  // Hears of every notification. A clock with virtual time wakes its waiters in this way.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void OnNotifyAll(CondVar& condition) = 0;
  };

  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void NotifyAll() {
    condition_.notify_all();
    if (Observer* observer = observer_.load(std::memory_order_acquire)) {
      observer->OnNotifyAll(*this);
    }
  }
  // `observer` is borrowed until it is replaced; null for none.
  void set_observer(Observer* observer) { observer_.store(observer, std::memory_order_release); }

  void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    // std::condition_variable::wait would need the libstdc++ of gcc 12; RHEL 9 has that of gcc 11.
    pthread_cond_wait(condition_.native_handle(), mutex.mutex_.native_handle());
  }
  // False when `deadline` passed.
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }

 private:
  std::condition_variable condition_;
  std::atomic<Observer*> observer_ = nullptr;
};

}  // namespace capstan

#endif  // COMMON_BASE_MUTEX_H_
