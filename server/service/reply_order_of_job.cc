#include "server/service/reply_order_of_job.h"

#include <algorithm>
#include <utility>

#include "common/scheduler/make_transfer_queue.h"

namespace capstan {

ReplyOrder ReplyOrderOfJob(const v1::SchedulerSpec& scheduler, uint32_t connections,
                           std::function<int(TableId)> layer_of) {
  ReplyOrder order;
  order.credit_bytes = std::max<uint64_t>(scheduler.credit_bytes() / connections, 1);
  order.make_queue = [policy = scheduler.policy()] { return MakeTransferQueue(policy); };
  order.layer_of = std::move(layer_of);
  return order;
}

}  // namespace capstan
