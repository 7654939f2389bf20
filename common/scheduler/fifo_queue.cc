#include "common/scheduler/fifo_queue.h"

#include <utility>

namespace capstan {

void FifoQueue::Push(Transfer transfer) { transfers_.push_back(std::move(transfer)); }

const Transfer& FifoQueue::Next() const { return transfers_.front(); }

Transfer FifoQueue::Pop() {
  Transfer next = std::move(transfers_.front());
  transfers_.pop_front();
  return next;
}

}  // namespace capstan
