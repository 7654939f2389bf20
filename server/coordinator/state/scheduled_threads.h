#ifndef SERVER_COORDINATOR_STATE_SCHEDULED_THREADS_H_
#define SERVER_COORDINATOR_STATE_SCHEDULED_THREADS_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/base/real_clock.h"

namespace capstan {

// Threads of which one runs at a time, up to its next call of Pause. `choose` says which one goes
// on then: it returns one of the given ones, which have not ended.
class ScheduledThreads {
 public:
  using Choose = std::function<size_t(const std::vector<size_t>& waiting)>;

  // Returns once all bodies have ended.
  void Run(const std::vector<std::function<void()>>& bodies, Choose choose);

  // Called by the body `thread`. Returns when it may go on.
  void Pause(size_t thread);

 private:
  static constexpr size_t kNobody = static_cast<size_t>(-1);

  void GoOn(size_t thread);
  void WaitFor(size_t thread);

  RealClock clock_;
  Mutex mu_;
  CondVar changed_;
  size_t running_ ABSL_GUARDED_BY(mu_) = kNobody;
  // Used by the running one.
  Choose choose_;
  std::vector<size_t> waiting_;
};

// Calls `run` with a Choose for each order in which threads can go on. They must do the same each
// time. Returns the number of orders.
size_t ForEachOrder(const std::function<void(const ScheduledThreads::Choose&)>& run);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_STATE_SCHEDULED_THREADS_H_
