#ifndef WORKER_CLIENT_ENCODE_QUEUE_H_
#define WORKER_CLIENT_ENCODE_QUEUE_H_

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/delayed_calls.h"
#include "common/base/mutex.h"
#include "common/scheduler/transfer_queue.h"

namespace capstan {

// Encodes gradients on the clock's thread, in the order in which they will be sent. Each call is a
// timer, so timers of others wait for one call at most. Thread-safe.
class EncodeQueue {
 public:
  // `clock` outlives the queue. `on_error` hears of want of memory in a call.
  EncodeQueue(Clock* clock, std::unique_ptr<TransferQueue> order,
              std::function<void(const absl::Status&)> on_error);

  // Runs `encode` when the queue comes to it. `layer` is that of the gradient.
  void Push(int layer, absl::AnyInvocable<void()> encode);
  // Drops what waits, now and later. Afterwards no call is running.
  void Stop() { later_.Stop(); }

 private:
  // Runs the first call of the queue, and then the others.
  void RunNext();

  // Made while there is memory for it.
  const absl::Status out_of_memory_ = absl::ResourceExhaustedError(
      "a gradient could not be encoded for want of memory; give the program more of it");
  const std::function<void(const absl::Status&)> on_error_;

  Mutex mu_;
  // To start a transfer is to run its call.
  const std::unique_ptr<TransferQueue> calls_ ABSL_PT_GUARDED_BY(mu_);
  bool is_running_ ABSL_GUARDED_BY(mu_) = false;

  DelayedCalls later_;  // uses the above until it is stopped
};

}  // namespace capstan

#endif  // WORKER_CLIENT_ENCODE_QUEUE_H_
