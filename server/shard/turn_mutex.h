#ifndef SERVER_SHARD_TURN_MUTEX_H_
#define SERVER_SHARD_TURN_MUTEX_H_

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace capstan {

// A mutex that one thread may take again and again, for long work in short parts. A plain mutex
// would mostly go to that thread again, before a waiting one has woken up. Here those that wait go
// first.
class ABSL_LOCKABLE TurnMutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (!is_shared_with_last_.load(std::memory_order_relaxed)) return mutex_.Lock();
    if (mutex_.TryLock()) return;
    MutexLock waits(&waiting_);
    mutex_.Lock();
  }
  // False: somebody holds it.
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.TryLock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }

  // Lets all go first that have waited since the last LockLast. One thread at a time.
  void LockLast() ABSL_EXCLUSIVE_LOCK_FUNCTION() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    is_shared_with_last_.store(true, std::memory_order_relaxed);
    { MutexLock nobody_waits(&waiting_); }
    mutex_.Lock();
  }
  void UnlockLast() ABSL_UNLOCK_FUNCTION() {
    is_shared_with_last_.store(false, std::memory_order_relaxed);
    mutex_.Unlock();
  }

 private:
  Mutex mutex_;
  Mutex waiting_;  // whoever waits while LockLast's thread has the mutex
  std::atomic<bool> is_shared_with_last_ = false;
};

// Holds a TurnMutex for its own lifetime.
class ABSL_SCOPED_LOCKABLE TurnLock {
 public:
  explicit TurnLock(TurnMutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(*mutex) {
    mutex_.Lock();
  }
  ~TurnLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  TurnLock(const TurnLock&) = delete;
  TurnLock& operator=(const TurnLock&) = delete;

 private:
  TurnMutex& mutex_;
};

}  // namespace capstan

#endif  // SERVER_SHARD_TURN_MUTEX_H_
