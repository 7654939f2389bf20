#ifndef COMMON_SCHEDULER_FIFO_QUEUE_H_
#define COMMON_SCHEDULER_FIFO_QUEUE_H_

#include <deque>

#include "common/scheduler/transfer_queue.h"

namespace capstan {

// In the order in which transfers become ready: wait-free backpropagation when they are slices.
// Zhang et al., "Poseidon", USENIX ATC'17.
class FifoQueue : public TransferQueue {
 public:
  void Push(Transfer transfer) override;
  const Transfer& Next() const override;
  Transfer Pop() override;
  bool is_empty() const override { return transfers_.empty(); }

 private:
  std::deque<Transfer> transfers_;
};

}  // namespace capstan

#endif  // COMMON_SCHEDULER_FIFO_QUEUE_H_
