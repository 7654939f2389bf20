#ifndef SERVER_SHARD_SHARD_H_
#define SERVER_SHARD_SHARD_H_

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/tensor/slicing.h"
#include "server/consistency/consistency_schedule.h"
#include "server/shard/slice.h"

namespace capstan {

// What counts for each table, in order of table id.
using TableSchedules = std::vector<std::shared_ptr<const ConsistencySchedule>>;

// A part of the key space: slices under one lock, the unit of placement. The same lock guards whose
// exchanges are admitted. Exchanges of different shards run in parallel. Thread-safe.
// A lock, and not a thread of the shard's own: two threads that exchange 64 KiB slices all the time
// take 5.5 us each when shards differ, 11.5 us in one shard (server_benchmark --filter=lock/sgd),
// while to wake another thread takes 20 us. OwnerThreads has what is worth that.
class Shard {
 public:
  struct Worker {
    WorkerId worker;
    Incarnation incarnation;
    Step first_step = Step(0);  // of its first push
    bool is_entering = false;   // it does not know its first step yet
  };
  // Stands before the lock, as a thread may be interrupted there: lets an exchange of a process go
  // on at once or later.
  using Interruption = std::function<void(Incarnation process, absl::AnyInvocable<void()> go_on)>;

  // `epoch` is that of all replies. `interruption` is for simulations; null: there is none.
  explicit Shard(Epoch epoch, Interruption interruption = nullptr)
      : epoch_(epoch), interruption_(std::move(interruption)) {}

  // Before any exchange.
  void AddSlice(SliceKey key, Slice::Options options);

  // Applies and answers, as Slice::Exchange. FAILED_PRECONDITION: the worker is no live one, or the
  // request is of another incarnation. UNAVAILABLE: the worker is entering. NOT_FOUND: the shard
  // has no such slice. Replies run on this thread once the lock is free.
  void Exchange(ExchangeRequest&& request, ParameterEndpoint::ReplyCallback done);

  // All live workers, as ShardHost::SetLiveWorkers.
  void SetLiveWorkers(absl::Span<const Worker> workers);
  // The largest next step of a worker that was added, of all slices.
  Step NextStep(WorkerId worker);
  // `schedules` has one for each table; as Slice::SetSchedule.
  void SetSchedules(const TableSchedules& schedules);
  // The smallest step that no slice has admitted or admits; as Slice::HoldBack.
  Step HoldBack();
  void CancelParked(const absl::Status& status);

 private:
  using Workers = std::map<WorkerId, Worker>;

  void Enter(ExchangeRequest&& request, ParameterEndpoint::ReplyCallback done);
  absl::Status CheckWorkerLocked(const ExchangeRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tells the slice how workers_ differs from `previous`.
  void ChangeWorkersLocked(const Workers& previous, Slice& slice, ReleasedReplies* released) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // With the slice's key, the slice, and where the replies go that are due.
  template <typename Action>
  void ForEachSlice(Action action);
  void Run(ReleasedReplies released) const;

  const Epoch epoch_;
  const Interruption interruption_;
  mutable Mutex mu_;
  Workers workers_ ABSL_GUARDED_BY(mu_);  // the live ones
  // In order, so that what a change of the membership lets out comes in the same order in every
  // run.
  std::map<SliceKey, std::unique_ptr<Slice>> slices_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // SERVER_SHARD_SHARD_H_
