#ifndef SERVER_SHARD_OWNER_THREADS_H_
#define SERVER_SHARD_OWNER_THREADS_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"

namespace capstan {

// Keeps a transport of one thread free: large exchanges are handed over to a thread that owns their
// slice, small ones run on the caller's. Pushes of a slice, which are alike, stay in order, and no
// pull overtakes an earlier push. Thread-safe.
class OwnerThreads : public ParameterEndpoint {
 public:
  // Gradients as large as this are handed over, unless somebody says otherwise: to wake a thread
  // takes 20 us.
  static constexpr size_t kHandOverBytes = 256 << 10;

  // `host` and `clock` outlive this object. With a `count` of 0 nothing is handed over.
  OwnerThreads(ParameterEndpoint* host, Clock* clock, int count,
               size_t hand_over_bytes = kHandOverBytes);
  // Answers what still queues UNAVAILABLE.
  ~OwnerThreads() override;

  // As many threads as this machine has use for: one for each core besides those of the transport's
  // thread and of a worker. On 2 cores, none: what was received lies in the cache next to the core
  // that received it, and another one would have to fetch it from there. Measured on 2 cores with 0
  // and with 2 owners in turn: exchanges of 4 MiB in slices of 1 MiB (exchange_benchmark
  // --transport=ucx) did 4.5 and 4.3 GB/s, of 2 workers 4.1 and 3.9, of 2 workers and 2 servers 4.4
  // and 3.5; a BSP step of 64 MiB took 57 and 59 ms, and 56 and 65 ms of the server's CPU time.
  static int DefaultCount();

  // As the host's; `delivered` runs when the host takes the gradient, which no longer queues here
  // then.
  void Exchange(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done) override;

 private:
  struct Queued {
    ExchangeRequest request;
    DeliveredCallback delivered;
    ReplyCallback done;
  };
  struct Owner {
    Mutex mu;
    CondVar changed;
    std::deque<Queued> queue ABSL_GUARDED_BY(mu);
    bool waits ABSL_GUARDED_BY(mu) = false;
    bool is_stopping ABSL_GUARDED_BY(mu) = false;
    std::thread thread;
  };

  void Run(Owner& owner);

  ParameterEndpoint& host_;
  Clock& clock_;
  const size_t hand_over_bytes_;
  std::vector<std::unique_ptr<Owner>> owners_;  // constant after construction
};

}  // namespace capstan

#endif  // SERVER_SHARD_OWNER_THREADS_H_
