#ifndef COMMON_SCHEDULER_PRIORITY_QUEUE_H_
#define COMMON_SCHEDULER_PRIORITY_QUEUE_H_

#include <deque>
#include <map>

#include "common/scheduler/transfer_queue.h"

namespace capstan {

// The layer nearest the input first, because the next forward pass needs it first; FIFO among those
// of one layer. Strict: while a transfer of a layer waits, none of a layer behind it goes, however
// small; a layer waits for as long as those before it have transfers, which ends with the step,
// because a worker makes no more of them before it has the values of this one.
// Peng et al., "A Generic Communication Scheduler for Distributed DNN Training Acceleration",
// SOSP'19.
class PriorityQueue : public TransferQueue {
 public:
  void Push(Transfer transfer) override;
  const Transfer& Next() const override;
  Transfer Pop() override;
  bool is_empty() const override { return of_layer_.empty(); }

 private:
  std::map<int, std::deque<Transfer>> of_layer_;  // none of them is empty
};

}  // namespace capstan

#endif  // COMMON_SCHEDULER_PRIORITY_QUEUE_H_
