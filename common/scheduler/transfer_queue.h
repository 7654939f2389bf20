#ifndef COMMON_SCHEDULER_TRANSFER_QUEUE_H_
#define COMMON_SCHEDULER_TRANSFER_QUEUE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "proto/job.pb.h"

namespace capstan {

// Bytes to send.
struct Transfer {
  int layer = 0;  // of the model, counted from the input
  uint64_t bytes = 0;
  // Sends the bytes. `credited` returns their credit. It must run once, when they are delivered or
  // lost.
  absl::AnyInvocable<void(absl::AnyInvocable<void()> credited)> start;
  // The scheduler's own: it is counted as waiting.
  bool is_counted = false;
};

// Waiting transfers, and the policy to choose the next one. Not thread-safe.
class TransferQueue {
 public:
  virtual ~TransferQueue() = default;

  virtual void Push(Transfer transfer) = 0;
  // The transfer to start next. The queue must not be empty.
  virtual const Transfer& Next() const = 0;
  virtual Transfer Pop() = 0;
  virtual bool is_empty() const = 0;
};

// First in, first out. If each slice is a transfer, this is wait-free backpropagation. Zhang et
// al., "Poseidon", USENIX ATC'17.
class FifoQueue : public TransferQueue {
 public:
  void Push(Transfer transfer) override;
  const Transfer& Next() const override { return transfers_.front(); }
  Transfer Pop() override;
  bool is_empty() const override { return transfers_.empty(); }

 private:
  std::deque<Transfer> transfers_;
};

// The layer nearest the input goes first, because the next forward pass needs it first. FIFO within
// a layer. The priority is strict: a transfer waits while an earlier layer has one waiting. No
// transfer starves: a worker submits no new ones until it has all values of its step.
// Peng et al., "A Generic Communication Scheduler for Distributed DNN Training Acceleration",
// SOSP'19.
class PriorityQueue : public TransferQueue {
 public:
  void Push(Transfer transfer) override;
  const Transfer& Next() const override { return of_layer_.begin()->second.front(); }
  Transfer Pop() override;
  bool is_empty() const override { return of_layer_.empty(); }

 private:
  std::map<int, std::deque<Transfer>> of_layer_;  // contains no empty deque
};

// `policy` is the policy of a valid job.
std::unique_ptr<TransferQueue> MakeTransferQueue(v1::SchedulerSpec::Policy policy);

}  // namespace capstan

#endif  // COMMON_SCHEDULER_TRANSFER_QUEUE_H_
