#ifndef WORKER_CLIENT_WORKER_EXCHANGES_H_
#define WORKER_CLIENT_WORKER_EXCHANGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/rates.h"
#include "common/scheduler/scheduler.h"
#include "worker/client/store_traffic.h"

namespace capstan {

// What all exchanges of a worker share: how they are sent, how many are open, the first error,
// rates of optimizers, and traffic. Open exchanges are counted by group, and others wait for a
// group: a layer of dense tables, a sparse table, or collective operations. Thread-safe.
class WorkerExchanges {
 public:
  struct Options {
    Clock* clock = nullptr;  // Required; outlives this object
    ParameterEndpoint* client =
        nullptr;                     // Required; answers every exchange before this object ends
    Scheduler* scheduler = nullptr;  // Required; outlives the exchanges
    Sender sender;                   // Required: the worker, as in all its requests
  };

  // `layer_count` layers of dense tables, and `table_count` tables in the job.
  WorkerExchanges(const Options& options, size_t layer_count, size_t table_count);

  Clock& clock() const { return *options_.clock; }
  ParameterEndpoint& client() const { return *options_.client; }
  Scheduler& scheduler() const { return *options_.scheduler; }
  const Sender& sender() const { return options_.sender; }

  // The group of a layer is its number. These are the groups of a sparse table, and of collective
  // operations.
  size_t GroupOf(TableId sparse_table) const { return layer_count_ + sparse_table.value(); }
  size_t collectives() const { return group_count_ - 1; }

  void Open(size_t group, int64_t exchanges);
  // One open exchange of the group has ended. An error ends all waits, unless there was one before.
  void Close(size_t group, const absl::Status& status);
  bool IsOpen(size_t group) const;
  // Ends all waits with `status`, now and later, unless there was an error before.
  void Fail(const absl::Status& status);

  // Blocks until no exchange of the group is open, for `limit` at most. False: one is still open.
  // The first error of any exchange ends all waits.
  absl::StatusOr<bool> WaitFor(size_t group, absl::Duration limit);
  // The same, for all groups, without limit.
  absl::Status WaitForAll();
  // The time of all threads in WaitFor so far, with waits that go on.
  absl::Duration waiting() const;

  // The table's pushes from now on have this learning rate, or this momentum.
  void SetLearningRate(TableId table, double learning_rate);
  void SetMomentum(TableId table, double momentum);
  Rates RatesOf(TableId table) const;

  TrafficCounter& traffic() { return traffic_; }
  const TrafficCounter& traffic() const { return traffic_; }

 private:
  const Options options_;
  const size_t layer_count_;
  const size_t group_count_;
  const absl::Time epoch_;
  TrafficCounter traffic_;

  mutable Mutex mu_;
  CondVar changed_;
  std::vector<int64_t> open_ ABSL_GUARDED_BY(mu_);  // by group: not answered yet
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::vector<Rates> rates_ ABSL_GUARDED_BY(mu_);  // by table
  // Waits that go on, and the sum of the times since `epoch_` at which they began.
  int64_t waits_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Duration waits_since_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // WORKER_CLIENT_WORKER_EXCHANGES_H_
