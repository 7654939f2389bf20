#ifndef COMMON_SCHEDULER_TRANSFER_QUEUE_H_
#define COMMON_SCHEDULER_TRANSFER_QUEUE_H_

#include "common/scheduler/transfer.h"

namespace capstan {

// Transfers that wait, and the policy that says which one is next. Not thread-safe.
class TransferQueue {
 public:
  virtual ~TransferQueue() = default;

  virtual void Push(Transfer transfer) = 0;
  // The one that goes next. The queue must not be empty.
  virtual const Transfer& Next() const = 0;
  virtual Transfer Pop() = 0;
  virtual bool is_empty() const = 0;
};

}  // namespace capstan

#endif  // COMMON_SCHEDULER_TRANSFER_QUEUE_H_
