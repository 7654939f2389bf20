#include "common/scheduler/make_transfer_queue.h"

#include <glog/logging.h>

#include "common/scheduler/fifo_queue.h"
#include "common/scheduler/priority_queue.h"

namespace capstan {

std::unique_ptr<TransferQueue> MakeTransferQueue(v1::SchedulerSpec::Policy policy) {
  switch (policy) {
    case v1::SchedulerSpec::TENSOR_FIFO:  // The same order; what differs is that nothing is cut.
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
