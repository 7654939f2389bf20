#ifndef COMMON_SCHEDULER_SCHEDULER_H_
#define COMMON_SCHEDULER_SCHEDULER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "common/base/mutex.h"
#include "common/scheduler/transfer_queue.h"

namespace capstan {

// Starts the transfers of one sender in the order of its queue, within a credit of bytes on their
// way: what comes first in the queue never waits for more than the credit and one transfer.
// Thread-safe; outlives its transfers.
class Scheduler {
 public:
  // A transfer starts, whatever its size, while the bytes on their way are below `credit_bytes`,
  // which is above 0.
  Scheduler(uint64_t credit_bytes, std::unique_ptr<TransferQueue> queue);

  // Starts the transfer when its turn comes, on this thread or on one that runs a `credited`.
  void Submit(Transfer transfer);
  // The same for a transfer that need not wait, without making one: true when it may be sent at
  // once. ReturnCredit must follow then, once, when its bytes are no longer on their way.
  bool TryStart(uint64_t bytes);
  void ReturnCredit(uint64_t bytes);
  // Another credit, above 0, from now on. What is on its way already counts against it.
  void SetCredit(uint64_t credit_bytes);

  // Drops what waits, and whatever is submitted from now on: nothing starts any more, but for what
  // another thread is starting.
  void Close();

 private:
  // Starts what the credit allows, in order, one thread at a time.
  void StartReadyAndUnlock() ABSL_UNLOCK_FUNCTION(mu_);

  Mutex mu_;
  uint64_t credit_bytes_ ABSL_GUARDED_BY(mu_);
  const std::unique_ptr<TransferQueue> queue_ ABSL_PT_GUARDED_BY(mu_);
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t bytes_in_flight_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_starting_ ABSL_GUARDED_BY(mu_) = false;
};

// The `credited` of one transfer that is sent as several messages. Its `count`-th call runs the
// transfer's own. Copies count together. Thread-safe.
class JoinedCredit {
 public:
  JoinedCredit(int64_t count, absl::AnyInvocable<void()> credited)
      : state_(std::make_shared<State>(count, std::move(credited))) {}

  void operator()() const {
    if (state_->left.fetch_sub(1) == 1) state_->credited();
  }

 private:
  struct State {
    State(int64_t count, absl::AnyInvocable<void()> last)
        : left(count), credited(std::move(last)) {}
    std::atomic<int64_t> left;
    absl::AnyInvocable<void()> credited;
  };
  std::shared_ptr<State> state_;
};

}  // namespace capstan

#endif  // COMMON_SCHEDULER_SCHEDULER_H_
