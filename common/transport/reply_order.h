#ifndef COMMON_TRANSPORT_REPLY_ORDER_H_
#define COMMON_TRANSPORT_REPLY_ORDER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "common/base/ids.h"
#include "common/scheduler/transfer_queue.h"
#include "proto/job.pb.h"

namespace capstan {

// Which of the values that a server has for a worker go first, on each connection. By default those
// that were released first.
struct ReplyOrder {
  // Values on their way at once: more are sent while those that the worker has not received are
  // fewer bytes. Above 0.
  uint64_t credit_bytes = 4 << 20;

  // What it is from now on, above 0; asked before each reply with values, on any thread. Null: it
  // stays as it is.
  std::function<uint64_t()> credit_now;

  // Makes the queues of a connection.
  std::function<std::unique_ptr<TransferQueue>()> make_queue = [] {
    return std::make_unique<FifoQueue>();
  };

  // The layer of the model that reads a table, counted from the input. Called on any thread, with
  // whatever a peer has named.
  std::function<int(TableId)> layer_of = [](TableId) { return 0; };
};

// The order of replies that the policy of a valid job asks for. Each of a worker's `connections` (1
// or more) orders its own share of the slices, of all layers, and has its share of the job's
// credit: so the worker has no more on its way from a server than that, but for a slice of each
// connection. `tuned_credit` tells what the credit of a job that is tuned is now, 0 while it is the
// job's own; called on any thread.
ReplyOrder ReplyOrderOfJob(const v1::SchedulerSpec& scheduler, uint32_t connections,
                           std::function<int(TableId)> layer_of,
                           std::function<uint64_t()> tuned_credit);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_REPLY_ORDER_H_
