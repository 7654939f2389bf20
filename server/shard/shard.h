#ifndef SERVER_SHARD_SHARD_H_
#define SERVER_SHARD_SHARD_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/tensor/slicing.h"
#include "server/consistency/consistency_schedule.h"
#include "server/shard/copy_sender.h"
#include "server/shard/shard_contents.h"
#include "server/shard/turn_mutex.h"
#include "server/slice/shard_counts.h"
#include "server/slice/shard_snapshot.h"
#include "server/slice/slice.h"

namespace capstan {

// The consistency schedule of each table, in order of table id.
using TableSchedules = std::vector<std::shared_ptr<const ConsistencySchedule>>;

// A part of the key space: slices under one lock, the unit of placement. The lock also guards the
// set of admitted workers. Exchanges of different shards run in parallel. Thread-safe.
// A lock costs less than a thread for each shard: two threads in a loop of 64 KiB exchanges take
// 5.5 us for each if their shards differ, and 11.5 us in one shard (server_benchmark
// --filter=lock/sgd). Waking a thread takes 20 us; OwnerThreads does it for large exchanges only.
class Shard {
 public:
  using Worker = ShardWorker;
  // Simulates the interruption of a thread before the lock: calls `go_on` at once or later.
  using Interruption = std::function<void(Incarnation process, absl::AnyInvocable<void()> go_on)>;

  // The server is the shard's primary from `epoch` on. `interruption` is for simulations; null:
  // there is none. `clock` measures, and outlives the shard; null: nothing is measured.
  // `has_programs`: as in ShardHost::Options.
  explicit Shard(Epoch epoch, Interruption interruption = nullptr, const Clock* clock = nullptr,
                 bool has_programs = false)
      : primary_since_(epoch),
        epoch_(epoch),
        interruption_(std::move(interruption)),
        clock_(clock),
        has_programs_(has_programs),
        access_(std::make_shared<Access>()) {
    MutexLock lock(&access_->mu);
    access_->shard = this;
  }
  // Cuts whose rows are not copied yet are of no use any more.
  ~Shard();

  // Only before the first exchange. With `snapshot`, the slice goes on where that one was;
  // RestoreWorkers must follow. RESOURCE_EXHAUSTED.
  absl::Status AddSlice(SliceKey key, std::unique_ptr<Slice> slice,
                        const SliceSnapshot* snapshot = nullptr);

  // Goes on where a copy of the shard was. Only before the first exchange; SetLiveWorkers must
  // follow.
  void TakeOver(ShardContents contents);

  // Begins with the members of another shard. SetLiveWorkers then replaces them by other processes
  // and removes who does not come back. Until then each of them holds its place in the slices.
  void RestoreWorkers(absl::Span<const Worker> workers);

  // Applies and answers, as Slice::Exchange, or Collectives::Exchange. More errors:
  // FAILED_PRECONDITION: the worker is not live, the request is of another incarnation, or of an
  // epoch in which another server was the primary. UNIMPLEMENTED: a collective operation in a step
  // that is not one of BSP. UNAVAILABLE: the worker is entering, or the epoch is not known yet.
  // NOT_FOUND: the shard has no such slice. Replies have the epoch since which the shard is here,
  // and run on this thread once the lock is free.
  void Exchange(ExchangeRequest&& request, ParameterEndpoint::ReplyCallback done);

  // There is a newer routing table, in which this server is still the shard's primary.
  void SetEpoch(Epoch epoch);

  // From now on the shard has a copy there, which is made at once, beside what goes on. One that it
  // had is given up. `pool` outlives the shard, and the target's link has answered everything when
  // the shard ends. `on_made` runs once, on any thread, when the copy is whole or given up. That is
  // at once after End, or if a copy with this number or a larger one was begun or ended.
  void BeginCopy(ShardId id, const CopyTarget& target, BufferPool* pool,
                 absl::AnyInvocable<void()> on_made);
  // Copies up to this number are not wanted any more: no reply waits for one.
  void EndCopy(uint64_t number);
  // How far it is. None: there is no copy.
  std::optional<CopyProgress> copy_progress() const;
  // Calls `use` when the lock is held, for simulations that compare copies: with the sequence of
  // the latest change.
  void LookAt(absl::FunctionRef<void(uint64_t sequence, const ShardContents& contents)> use) const;

  // As ShardHost::SetLiveWorkers.
  void SetLiveWorkers(absl::Span<const Worker> workers);
  // The largest Slice::next_step of a live worker.
  Step NextStep(WorkerId worker);
  // The smallest one, or the step in which a program has operations left; kLargestStep without
  // slices.
  Step OpenStep(WorkerId worker);
  // Runs `done` as a reply does: not before the shard's copy has all changes so far. The reply has
  // End's status if the shard has ended.
  void AfterCopy(ParameterEndpoint::ReplyCallback done);
  // The shard at one moment. The caller sets its id.
  ShardSnapshot Snapshot();
  // Takes each slice's snapshot as Slice::CutAt, and then calls `on_cut` with all of them, on any
  // thread. The snapshot has no id yet, and its rows come with CopyRows. A cut that is not done is
  // given up.
  using CutCallback = absl::AnyInvocable<void(ShardSnapshot)>;
  void CutAt(Step step, CutCallback on_cut);
  // Reads rows of a slice here, as Slice::ReadRow; a key without a row gets none. `done` runs as a
  // reply does: not before the shard's copy has what was read. UNAVAILABLE: the shard has ended, or
  // rows of too many bytes wait for the copy.
  using ReadCallback = absl::AnyInvocable<void(absl::StatusOr<std::vector<std::vector<float>>>)>;
  void ReadRows(SliceKey slice, absl::Span<const uint64_t> keys, size_t dim, ReadCallback done);
  // As Slice::SetSchedule, with a schedule for each table.
  void SetSchedules(const TableSchedules& schedules);
  // As Slice::HoldBack, for all slices. Returns the largest of their steps.
  Step HoldBack();
  // Answers all that waits with `status`, and from now on what would be answered OK.
  void End(const absl::Status& status);
  ShardCounts counts();
  // ShardCounts::exchanges alone. Cheap.
  int64_t num_exchanges() const;

 private:
  using Workers = ShardContents::Workers;
  using Slices = ShardContents::Slices;

  // What is due once the lock is free.
  struct Due {
    ReleasedReplies replies;
    CutCallback on_cut;  // null: no cut is done
    ShardSnapshot cut;
    uint64_t sends_to = 0;               // changes to the copy of this number; 0: does not
    absl::AnyInvocable<void()> on_made;  // null: no copy was made
  };

  // Leads to the shard until its end, which waits for who uses it.
  struct Access {
    Mutex mu;
    Shard* shard ABSL_GUARDED_BY(mu) = nullptr;
  };

  void Enter(ExchangeRequest&& request, ParameterEndpoint::ReplyCallback done);
  // Hands the request of a live worker to its slice, or to the collective operations.
  void DispatchLocked(ExchangeRequest&& request, Slice& slice,
                      ParameterEndpoint::ReplyCallback done, ReleasedReplies* released)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckEpochLocked(Epoch epoch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckSenderLocked(const Sender& sender) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tells the slice how workers_ differs from `previous`.
  void ChangeWorkersLocked(const Workers& previous, Slice& slice, ReleasedReplies* released) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Calls `action` with each slice's key, the slice, and the list of due replies.
  template <typename Action>
  void ForEachSlice(Action action);
  // All slices as `take` returns them.
  template <typename Take>
  ShardSnapshot CollectLocked(Take take) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Runs `use` under the lock. Exchanges that wait go first.
  void UseLast(absl::FunctionRef<void()> use);
  void TakeCutLocked(Due& due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CountRequestLocked(const ExchangeRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The last step under the lock: counts the replies, and keeps those that must wait for the copy.
  void EndLocked(Due& due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run(Due due);
  // Sends changes to the copy until there are none.
  void SendChanges(uint64_t copy);
  // Another last step: on_made_ is due if copy_ is whole now, or given up.
  void TakeMadeLocked(Due& due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndCopyLocked(Due& due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnAnswer(uint64_t copy, uint64_t attempt, const ExchangeReply& reply);
  void NoteProgressLocked(WorkerId worker, Step next, ReleasedReplies* released)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Notes an exchange that is no step, for the copy.
  void NoteExchangeLocked(const ExchangeRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Epoch primary_since_;
  Epoch epoch_ ABSL_GUARDED_BY(mu_);
  const Interruption interruption_;
  const Clock* const clock_;
  const bool has_programs_;
  const std::shared_ptr<Access> access_;  // also of cuts whose rows are not copied yet
  mutable TurnMutex mu_;
  ShardContents contents_ ABSL_GUARDED_BY(mu_);
  absl::Status end_ ABSL_GUARDED_BY(mu_);                    // of End
  std::unique_ptr<CopySender> copy_ ABSL_GUARDED_BY(mu_);    // null: there is no copy
  absl::AnyInvocable<void()> on_made_ ABSL_GUARDED_BY(mu_);  // of copy_, until it is made
  uint64_t ended_copy_ ABSL_GUARDED_BY(mu_) = 0;             // the largest number of EndCopy
  ShardCounts counts_ ABSL_GUARDED_BY(mu_);                  // without those of the slices
  CutCallback on_cut_ ABSL_GUARDED_BY(mu_);                  // null: no cut is pending
  Slices::iterator first_uncut_ ABSL_GUARDED_BY(mu_);        // for on_cut_: those before it are cut
  std::atomic<size_t> held_bytes_ = 0;                       // of rows whose ReadRows is not done
};

}  // namespace capstan

#endif  // SERVER_SHARD_SHARD_H_
