#ifndef COMMON_TRANSPORT_REPLY_ORDER_H_
#define COMMON_TRANSPORT_REPLY_ORDER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "common/base/ids.h"
#include "common/scheduler/transfer_queue.h"

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

}  // namespace capstan

#endif  // COMMON_TRANSPORT_REPLY_ORDER_H_
