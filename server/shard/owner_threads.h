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

// Keeps a single-threaded transport free. Each slice has one owner thread. Large exchanges are
// handed over to it, small ones run on the caller's thread. All pushes of a slice have one size, so
// they stay in order, and no pull overtakes an earlier push. Thread-safe.
class OwnerThreads : public ParameterEndpoint {
 public:
  // Default: smaller gradients, as float32, are not handed over, because waking a thread takes 20
  // us.
  static constexpr size_t kHandOverBytes = 256 << 10;

  // `host` and `clock` outlive this object. With a `count` of 0 nothing is handed over.
  OwnerThreads(ParameterEndpoint* host, Clock* clock, int count,
               size_t hand_over_bytes = kHandOverBytes);
  // Answers queued exchanges UNAVAILABLE.
  ~OwnerThreads() override;

  // One thread for each core of this machine, less one core for the transport's thread and one for
  // a worker; at most 8. On 2 cores there are none: received bytes lie in the cache of the
  // receiving core, and an owner on another core would have to fetch them. Measured on 2 cores,
  // with 0 and with 2 owners in turn (exchange_benchmark --transport=ucx, 4 MiB in slices of 1
  // MiB):
  //   1 worker, 1 server    4.5 and 4.3 GB/s
  //   2 workers, 1 server   4.1 and 3.9 GB/s
  //   2 workers, 2 servers  4.4 and 3.5 GB/s
  //   a BSP step of 64 MiB  57 and 59 ms, with 56 and 65 ms of the server's CPU time
  static int DefaultCount();

  // As the host's. `delivered` runs when the host takes the gradient, not when it is queued here.
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

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
