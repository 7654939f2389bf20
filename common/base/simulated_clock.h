#ifndef COMMON_BASE_SIMULATED_CLOCK_H_
#define COMMON_BASE_SIMULATED_CLOCK_H_

#include <deque>
#include <list>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"

namespace capstan {

// Virtual time for a program of many threads. One thread at a time holds the baton and runs until
// it waits or ends; then the next ready thread gets the baton. When no thread is ready, time jumps
// to the next timer. A program without any other time or chance does the same in every run. Used by
// the spawned threads, by timers, and by the caller of RunUntil.
class SimulatedClock : public Clock, private CondVar::Observer {
 public:
  SimulatedClock();
  // All threads have ended.
  ~SimulatedClock() override;

  // Adds a thread, behind all threads ready now.
  void Spawn(absl::AnyInvocable<void()> body);

  // Runs threads and timers until nothing more happens up to `deadline`. InfiniteFuture: until the
  // last timer has run.
  void RunUntil(absl::Time deadline);

  // Number of threads still alive.
  int live_threads() const;

  absl::Time Now() const override;
  // Timers run on the last thread that waited or ended. They must not wait.
  TimerId RunAt(absl::Time when, absl::AnyInvocable<void()> callback) override;
  bool Cancel(TimerId timer) override;
  bool WaitUntil(Mutex& mutex, CondVar& condition, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  // A thread, or the caller of RunUntil.
  struct Runner {
    std::thread thread;
    CondVar may_go;
    bool has_baton = false;
    bool is_ready = false;  // it is in ready_
  };

  void OnNotifyAll(CondVar& condition) override;
  void MakeReadyLocked(Runner* runner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Runs timers until a runner is ready, and removes the runner from ready_.
  Runner* NextRunnerLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives the baton to the next runner, and waits until it comes back.
  void PassBatonLocked(Runner* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GiveBatonLocked(Runner* next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AwaitBatonLocked(Runner* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunThread(Runner* self, absl::AnyInvocable<void()> body);

  mutable Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_) = absl::FromUnixSeconds(1'000'000'000);
  absl::Time deadline_ ABSL_GUARDED_BY(mu_);
  TimerQueue timers_ ABSL_GUARDED_BY(mu_);
  bool is_in_timer_ ABSL_GUARDED_BY(mu_) = false;
  Runner driver_ ABSL_GUARDED_BY(mu_);
  Runner* current_ ABSL_GUARDED_BY(mu_) = &driver_;  // holds the baton
  std::deque<Runner*> ready_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<CondVar*, std::list<Runner*>> waiting_ ABSL_GUARDED_BY(mu_);
  std::list<std::unique_ptr<Runner>> threads_ ABSL_GUARDED_BY(mu_);
  int live_threads_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace capstan

#endif  // COMMON_BASE_SIMULATED_CLOCK_H_
