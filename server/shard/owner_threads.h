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
#include "common/transport/parameter_endpoint.h"

namespace capstan {

// Keeps a transport of one thread free: large exchanges are handed over to a thread that owns their
// slice, small ones run on the caller's. Pushes of a slice, which are alike, stay in order, and no
// pull overtakes an earlier push. Thread-safe.
class OwnerThreads : public ParameterEndpoint {
 public:
  // Gradients as large as this are handed over, unless somebody says otherwise. Measured on 2
  // cores, exchange_benchmark --transport=ucx, in turn: on the transport's thread 1 KiB takes 2.7
  // us alone or goes 580,000/s, 128 KiB do 6.8 GB/s, 1 MiB with Adam 3.0, of two workers 2.8, and a
  // BSP step of 64 MiB takes 84 ms; handed over 23 us, 150,000/s, 5.7, 4.1 and 4.1 GB/s, 68 ms. One
  // worker with SGD alone gains nothing certain.
  static constexpr size_t kHandOverBytes = 256 << 10;

  // `host` and `clock` outlive this object; `count` is 1 or more.
  OwnerThreads(ParameterEndpoint* host, Clock* clock, int count,
               size_t hand_over_bytes = kHandOverBytes);
  // Answers what still queues UNAVAILABLE.
  ~OwnerThreads() override;

  // As many threads as this machine has use for.
  static int DefaultCount();

  // As the host's; `sent` runs when the host takes the gradient, which no longer queues here then.
  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override;

 private:
  struct Queued {
    ExchangeRequest request;
    SentCallback sent;
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
