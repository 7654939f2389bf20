#ifndef COMMON_TRANSPORT_REPLY_ORDER_H_
#define COMMON_TRANSPORT_REPLY_ORDER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "common/base/ids.h"
#include "common/scheduler/transfer_queue.h"
#include "proto/job.pb.h"

namespace capstan {

// The memory of a server's replies on all its connections. Thread-safe.
class ReplyMemory {
 public:
  void Add(int64_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> bytes_ = 0;
};

// The order of a server's values on one connection to a worker. Default: first in, first out.
struct ReplyOrder {
  // Values are sent while fewer bytes than this are undelivered. Above 0.
  uint64_t credit_bytes = 4 << 20;

  // Returns the new `credit_bytes`, above 0. Called before each reply with values, on any thread.
  // Null: the credit never changes.
  std::function<uint64_t()> credit_now;

  // Makes the queues of a connection.
  std::function<std::unique_ptr<TransferQueue>()> make_queue = [] {
    return std::make_unique<FifoQueue>();
  };

  // The layer of the model with this table, counted from the input. Called on any thread. The id
  // comes from a peer and may be of no table.
  std::function<int(TableId)> layer_of = [](TableId) { return 0; };

  // Hears of the memory that the connection's replies take. Outlives the connection. Null: nobody
  // asks.
  ReplyMemory* memory = nullptr;
};

// The order of replies for the policy of a valid job. A worker's `connections`, 1 or more, share
// the job's credit evenly. Each carries its own slices of every layer, in order. So a server's
// undelivered values exceed the job's credit by at most one slice for each connection.
// `credit` returns the credit that was chosen for the job, or 0 for the job's own. It is called on
// any thread.
ReplyOrder ReplyOrderOfJob(const v1::SchedulerSpec& scheduler, uint32_t connections,
                           std::function<int(TableId)> layer_of, std::function<uint64_t()> credit);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_REPLY_ORDER_H_
