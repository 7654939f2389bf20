#ifndef COMMON_SCHEDULER_SCHEDULER_H_
#define COMMON_SCHEDULER_SCHEDULER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/scheduler/transfer_queue.h"

namespace capstan {

// Starts the transfers of one sender in the order of its queue, within a credit: a bound on the
// bytes started and not yet credited. The first transfer of the queue never waits for more than the
// credit and one transfer. Must outlive its transfers. Thread-safe.
class Scheduler {
 public:
  // A transfer of any size starts if less than `credit_bytes` is in flight: started and not yet
  // credited. `credit_bytes` must be above 0. `clock` measures how long transfers wait, and
  // outlives the scheduler; null: nothing is measured.
  Scheduler(uint64_t credit_bytes, std::unique_ptr<TransferQueue> queue,
            const Clock* clock = nullptr);

  // Starts the transfer when its turn comes, on this thread or within a `credited` of another
  // transfer.
  void Submit(Transfer transfer);
  // The same without a Transfer. True: the caller may send the bytes now, and must call
  // ReturnCredit once for them. False: they must wait, so Submit them.
  bool TryStart(uint64_t bytes);
  void ReturnCredit(uint64_t bytes);
  // Changes the credit, which must be above 0. Bytes in flight count against the new one.
  void SetCredit(uint64_t credit_bytes);

  // The waiting transfers of a layer, and how long its transfers have waited so far, all together.
  struct Waiting {
    int64_t count = 0;
    absl::Duration time;
  };
  // By layer, of all layers that have had a transfer. Empty without a clock.
  std::map<int, Waiting> waiting() const;

  // Drops all waiting transfers and all later ones. Another thread may still start the one transfer
  // that it has taken from the queue.
  void Close();

 private:
  // Starts as many transfers as the credit allows, in order, on one thread at a time.
  void StartReadyAndUnlock() ABSL_UNLOCK_FUNCTION(mu_);

  // Whether a transfer that is submitted now would start at once.
  bool IsFreeLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CountLocked(Transfer& transfer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void UncountLocked(const Transfer& transfer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Clock* const clock_;
  const absl::Time begin_;  // times below are since this one
  mutable Mutex mu_;
  // `time` here lacks the present time for each waiting transfer.
  std::map<int, Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  uint64_t credit_bytes_ ABSL_GUARDED_BY(mu_);
  const std::unique_ptr<TransferQueue> queue_ ABSL_PT_GUARDED_BY(mu_);
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t bytes_in_flight_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_starting_ ABSL_GUARDED_BY(mu_) = false;
};

// The `credited` of one transfer made of several messages. The `count`-th call of it or of its
// copies runs the transfer's own `credited`. Thread-safe.
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
