#include "common/transport/reply_order.h"

#include <algorithm>
#include <utility>

namespace capstan {

ReplyOrder ReplyOrderOfJob(const v1::SchedulerSpec& scheduler, uint32_t connections,
                           std::function<int(TableId)> layer_of, std::function<uint64_t()> credit) {
  const auto share = [connections](uint64_t credit) {
    return std::max<uint64_t>(credit / connections, 1);
  };
  ReplyOrder order;
  order.credit_bytes = share(scheduler.credit_bytes());
  order.credit_now = [share, own = scheduler.credit_bytes(), credit = std::move(credit)] {
    const uint64_t chosen = credit();
    return share(chosen > 0 ? chosen : own);
  };
  order.make_queue = [policy = scheduler.policy()] { return MakeTransferQueue(policy); };
  order.layer_of = std::move(layer_of);
  return order;
}

}  // namespace capstan
