#include "common/scheduler/transfer_queue.h"

#include <glog/logging.h>

#include <utility>

namespace capstan {

void FifoQueue::Push(Transfer transfer) { transfers_.push_back(std::move(transfer)); }

Transfer FifoQueue::Pop() {
  Transfer next = std::move(transfers_.front());
  transfers_.pop_front();
  return next;
}

void PriorityQueue::Push(Transfer transfer) {
  of_layer_[transfer.layer].push_back(std::move(transfer));
}

Transfer PriorityQueue::Pop() {
  const auto first = of_layer_.begin();
  Transfer next = std::move(first->second.front());
  first->second.pop_front();
  if (first->second.empty()) of_layer_.erase(first);
  return next;
}

std::unique_ptr<TransferQueue> MakeTransferQueue(v1::SchedulerSpec::Policy policy) {
  switch (policy) {
    case v1::SchedulerSpec::TENSOR_FIFO:  // Differs from SLICE_FIFO in the size of transfers.
    case v1::SchedulerSpec::SLICE_FIFO:
      return std::make_unique<FifoQueue>();
    case v1::SchedulerSpec::PRIORITY:
      return std::make_unique<PriorityQueue>();
    case v1::SchedulerSpec::POLICY_UNSPECIFIED:
      break;
  }
  LOG(FATAL) << "no policy " << policy;
}

}  // namespace capstan
