#ifndef WORKER_SCHEDULER_SLICE_FIFO_SCHEDULER_H_
#define WORKER_SCHEDULER_SLICE_FIFO_SCHEDULER_H_

#include <cstdint>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "worker/scheduler/scheduler.h"

namespace capstan {

// Wait-free backpropagation: slices go out in the order in which they become ready, within a credit
// of bytes. Zhang et al., "Poseidon", USENIX ATC'17. Thread-safe; outlives its transfers.
class SliceFifoScheduler : public Scheduler {
 public:
  // A transfer starts while the bytes started and not yet sent are below `credit_bytes` > 0.
  explicit SliceFifoScheduler(uint64_t credit_bytes) : credit_bytes_(credit_bytes) {}

  void Submit(Transfer transfer) override;

 private:
  // Starts what the credit allows, in order, one thread at a time.
  void StartReady();

  const uint64_t credit_bytes_;

  Mutex mu_;
  std::deque<Transfer> queue_ ABSL_GUARDED_BY(mu_);
  uint64_t bytes_in_flight_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_starting_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace capstan

#endif  // WORKER_SCHEDULER_SLICE_FIFO_SCHEDULER_H_
