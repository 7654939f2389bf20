#ifndef SERVER_SHARD_SHARD_H_
#define SERVER_SHARD_SHARD_H_

#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/routing/slice_key.h"
#include "common/transport/parameter_endpoint.h"
#include "server/consistency/consistency_schedule.h"
#include "server/shard/slice.h"

namespace capstan {

// What counts for each table, in order of table id.
using TableSchedules = std::vector<std::shared_ptr<const ConsistencySchedule>>;

// A part of the key space: slices under one lock, the unit of placement. Exchanges of different
// shards run in parallel. Thread-safe.
// A lock, and not a thread of the shard's own: two threads that exchange 64 KiB slices all the time
// take 5.5 us each when shards differ, 11.5 us in one shard (server_benchmark --filter=lock/sgd),
// while to wake another thread takes 20 us. OwnerThreads has what is worth that.
class Shard {
 public:
  // `epoch` is that of all replies.
  explicit Shard(Epoch epoch) : epoch_(epoch) {}

  // Before any exchange.
  void AddSlice(SliceKey key, Slice::Options options);

  // Applies and answers, as Slice::Exchange; NOT_FOUND when the shard has no such slice. Replies
  // run on this thread once the lock is free.
  void Exchange(ExchangeRequest&& request, ParameterEndpoint::ReplyCallback done);

  void AddWorker(WorkerId worker);
  void EnterWorker(WorkerId worker, Step first_step);
  void RemoveWorker(WorkerId worker);
  // The largest next step of a worker that was added, of all slices.
  Step NextStep(WorkerId worker);
  // `schedules` has one for each table; as Slice::SetSchedule.
  void SetSchedules(const TableSchedules& schedules);
  // The smallest step that no slice has admitted or admits; as Slice::HoldBack.
  Step HoldBack();
  void CancelParked(const absl::Status& status);

 private:
  // With the slice's key, the slice, and where the replies go that are due.
  template <typename Action>
  void ForEachSlice(Action action);
  void Run(ReleasedReplies released) const;

  const Epoch epoch_;
  Mutex mu_;
  // In order, so that what a change of the membership lets out comes in the same order in every
  // run.
  std::map<SliceKey, std::unique_ptr<Slice>> slices_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // SERVER_SHARD_SHARD_H_
