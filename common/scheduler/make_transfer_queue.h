#ifndef COMMON_SCHEDULER_MAKE_TRANSFER_QUEUE_H_
#define COMMON_SCHEDULER_MAKE_TRANSFER_QUEUE_H_

#include <memory>

#include "common/scheduler/transfer_queue.h"
#include "proto/job.pb.h"

namespace capstan {

// The queue of a policy; `policy` is one of a valid job.
std::unique_ptr<TransferQueue> MakeTransferQueue(v1::SchedulerSpec::Policy policy);

}  // namespace capstan

#endif  // COMMON_SCHEDULER_MAKE_TRANSFER_QUEUE_H_
