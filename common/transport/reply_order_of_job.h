#ifndef COMMON_TRANSPORT_REPLY_ORDER_OF_JOB_H_
#define COMMON_TRANSPORT_REPLY_ORDER_OF_JOB_H_

#include <cstdint>
#include <functional>

#include "common/base/ids.h"
#include "common/transport/reply_order.h"
#include "proto/job.pb.h"

namespace capstan {

// The order of replies that the policy of a valid job asks for. Each of a worker's `connections` (1
// or more) orders its own share of the slices, of all layers, and has its share of the job's
// credit: so the worker has no more on its way from a server than that, but for a slice of each
// connection. `tuned_credit` tells what the credit of a job that is tuned is now, 0 while it is the
// job's own; called on any thread.
ReplyOrder ReplyOrderOfJob(const v1::SchedulerSpec& scheduler, uint32_t connections,
                           std::function<int(TableId)> layer_of,
                           std::function<uint64_t()> tuned_credit);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_REPLY_ORDER_OF_JOB_H_
