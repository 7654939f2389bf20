#ifndef WORKER_SCHEDULER_SCHEDULER_H_
#define WORKER_SCHEDULER_SCHEDULER_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"

namespace capstan {

// One exchange that wants to be sent.
struct Transfer {
  int layer = 0;       // of the model, counted from the input
  uint64_t bytes = 0;  // that it sends
  // Sends it. `sent` must run once, when its bytes no longer queue in this process.
  absl::AnyInvocable<void(absl::AnyInvocable<void()> sent)> start;
};

// Orders the transfers of one worker. Thread-safe.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // Starts the transfer when its turn comes, on this thread or on one that runs a `sent`.
  virtual void Submit(Transfer transfer) = 0;
};

}  // namespace capstan

#endif  // WORKER_SCHEDULER_SCHEDULER_H_
