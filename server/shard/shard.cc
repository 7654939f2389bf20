#include "server/shard/shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

// Holds the lock, and measures how long the caller waited for it and holds it.
class ABSL_SCOPED_LOCKABLE MeasuredLock {
 public:
  // `clock` null: measures nothing. `counts` is guarded by the mutex.
  MeasuredLock(Mutex* mutex, const Clock* clock, ShardCounts* counts)
      ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS : mutex_(*mutex),
                                                                           clock_(clock),
                                                                           counts_(*counts) {
    const bool is_free = mutex_.TryLock();
    begin_ = Now();
    if (is_free) return;
    mutex_.Lock();
    const absl::Time asked = begin_;
    begin_ = Now();
    counts_.lock_wait += begin_ - asked;
  }
  ~MeasuredLock() ABSL_UNLOCK_FUNCTION() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    counts_.lock_held += Now() - begin_;
    mutex_.Unlock();
  }
  MeasuredLock(const MeasuredLock&) = delete;
  MeasuredLock& operator=(const MeasuredLock&) = delete;

 private:
  absl::Time Now() const { return clock_ == nullptr ? absl::Time() : clock_->Now(); }

  Mutex& mutex_;
  const Clock* const clock_;
  ShardCounts& counts_;
  absl::Time begin_;
};

}  // namespace

void Shard::Run(Due due) const {
  for (auto& [done, reply] : due.replies) {
    reply.epoch = epoch_;
    done(std::move(reply));
  }
  if (due.on_cut != nullptr) due.on_cut(std::move(due.cut));
}

absl::Status Shard::AddSlice(SliceKey key, std::unique_ptr<Slice> slice,
                             const SliceSnapshot* snapshot) {
  if (snapshot != nullptr) RETURN_IF_ERROR(slice->Restore(*snapshot));
  MutexLock lock(&mu_);
  slices_.emplace(key, std::move(slice));
  return absl::OkStatus();
}

void Shard::RestoreWorkers(absl::Span<const Worker> workers) {
  MutexLock lock(&mu_);
  for (const Worker& worker : workers) workers_.emplace(worker.worker, worker);
}

void Shard::Exchange(ExchangeRequest&& request, ParameterEndpoint::ReplyCallback done) {
  if (interruption_ == nullptr) return Enter(std::move(request), std::move(done));
  const Incarnation process = request.sender.incarnation;
  interruption_(process, [this, request = std::move(request), done = std::move(done)]() mutable {
    Enter(std::move(request), std::move(done));
  });
}

void Shard::Enter(ExchangeRequest&& request, ParameterEndpoint::ReplyCallback done) {
  Due due;
  {
    const MeasuredLock lock(&mu_, clock_, &counts_);
    absl::Status status = CheckSenderLocked(request.sender);
    const auto it = slices_.find(request.slice);
    if (status.ok() && it == slices_.end()) status = absl::InternalError("no such slice here");
    if (status.ok()) {
      CountRequestLocked(request);
      DispatchLocked(std::move(request), *it->second, std::move(done), &due.replies);
      if (on_cut_ != nullptr && it->second->has_cut()) TakeCutLocked(due);
    } else {
      due.replies.emplace_back(std::move(done), ErrorReply(std::move(status)));
    }
    request.purpose = WorkerStatePull();  // What it brought is released before its reply.
    CountRepliesLocked(due.replies);
  }
  Run(std::move(due));
}

void Shard::DispatchLocked(ExchangeRequest&& request, Slice& slice,
                           ParameterEndpoint::ReplyCallback done, ReleasedReplies* released) {
  const WorkerId worker = request.sender.worker;
  if (auto* collective = std::get_if<Collective>(&request.purpose)) {
    if (slice.IsWhole(collective->step)) {
      return collectives_.Exchange(worker, std::move(*collective), std::move(done), released);
    }
    released->emplace_back(
        std::move(done),
        ErrorReply(absl::UnimplementedError("operations of all workers need --consistency=bsp")));
    return;
  }
  const bool is_first = request.slice == kCollectiveSlice && PushOf(request) != nullptr;
  slice.Exchange(std::move(request), std::move(done), released);
  if (is_first) collectives_.NoteProgress(worker, slice.next_step(worker), released);
}

void Shard::CountRequestLocked(const ExchangeRequest& request) {
  const bool is_pull = PullOf(request) != nullptr;
  if (PushOf(request) != nullptr) {
    ++(is_pull ? counts_.push_pulls : counts_.pushes);
  } else if (is_pull) {
    ++counts_.pulls;
  } else if (std::holds_alternative<Collective>(request.purpose)) {
    ++counts_.collectives;
  } else if (LeavesParameters(request)) {
    ++counts_.own_states;
  } else {
    ++counts_.initial_values;
  }
  const Gradient* const gradient = GradientOf(request);
  counts_.received.Add(gradient == nullptr ? CodecType::kFloat32 : gradient->codec,
                       PayloadBytes(request));
}

void Shard::CountRepliesLocked(const ReleasedReplies& replies) {
  for (const auto& [done, reply] : replies) {
    counts_.sent.Add(reply.codec, reply.values.size_bytes());
  }
}

int64_t Shard::num_exchanges() const {
  MutexLock lock(&mu_);
  return counts_.exchanges();
}

ShardCounts Shard::counts() {
  MutexLock lock(&mu_);
  ShardCounts counts = counts_;
  counts.parked += collectives_.num_parked();
  for (const auto& [key, slice] : slices_) {
    counts.parked += slice->num_parked();
    counts.duplicate_pushes += slice->duplicate_pushes();
    counts.memory += slice->memory();
  }
  return counts;
}

absl::Status Shard::CheckSenderLocked(const Sender& sender) const {
  const auto it = workers_.find(sender.worker);
  if (it == workers_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", sender.worker.value(),
                     " is no live member of the job: it was declared dead or never registered"));
  }
  const Worker& worker = it->second;
  if (worker.incarnation != sender.incarnation) {
    return absl::FailedPreconditionError(
        absl::StrCat("stale incarnation of worker ", sender.worker.value(), ": expected ",
                     worker.incarnation.value(), ", got ", sender.incarnation.value(),
                     "; another process has taken its place"));
  }
  if (worker.is_lost) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", sender.worker.value(),
        " was declared dead, and its place is held for another process; this one must stop"));
  }
  if (worker.is_entering) {
    return absl::UnavailableError(absl::StrCat("this server has not heard yet where worker ",
                                               sender.worker.value(), " begins"));
  }
  return absl::OkStatus();
}

void Shard::SetLiveWorkers(absl::Span<const Worker> workers) {
  Due due;
  {
    MutexLock lock(&mu_);
    const Workers previous = std::exchange(workers_, {});
    for (const Worker& worker : workers) workers_.emplace(worker.worker, worker);
    for (auto& [key, slice] : slices_) ChangeWorkersLocked(previous, *slice, &due.replies);
    if (const auto first = slices_.find(kCollectiveSlice); first != slices_.end()) {
      collectives_.SetWorkers(workers, &due.replies);
      for (const Worker& worker : workers) {
        collectives_.NoteProgress(worker.worker, first->second->next_step(worker.worker),
                                  &due.replies);
      }
    }
    TakeCutLocked(due);
    CountRepliesLocked(due.replies);
  }
  Run(std::move(due));
}

void Shard::ChangeWorkersLocked(const Workers& previous, Slice& slice,
                                ReleasedReplies* released) const {
  std::vector<WorkerId> added;
  std::vector<WorkerId> entered;
  for (const auto& [id, worker] : workers_) {
    const auto known = previous.find(id);
    const bool is_known =
        known != previous.end() && known->second.incarnation == worker.incarnation;
    if (!is_known) added.push_back(id);
    const bool is_entered =
        is_known && !known->second.is_entering && known->second.first_step == worker.first_step;
    if (!is_entered && !worker.is_entering) entered.push_back(id);
  }
  if (!added.empty()) slice.AddWorkers(added, released);
  for (const WorkerId id : entered) slice.EnterWorker(id, workers_.at(id).first_step, released);
  for (const auto& [id, worker] : previous) {
    if (workers_.count(id) == 0) slice.RemoveWorker(id, released);
  }
}

template <typename Action>
void Shard::ForEachSlice(Action action) {
  Due due;
  {
    MutexLock lock(&mu_);
    for (auto& [key, slice] : slices_) action(key, *slice, &due.replies);
    TakeCutLocked(due);
    CountRepliesLocked(due.replies);
  }
  Run(std::move(due));
}

Step Shard::NextStep(WorkerId worker) {
  Step next;
  ForEachSlice([worker, &next](const SliceKey&, Slice& slice, ReleasedReplies*) {
    next = std::max(next, slice.next_step(worker));
  });
  return next;
}

Step Shard::OpenStep(WorkerId worker) {
  Step open = kLargestStep;
  ForEachSlice([worker, &open](const SliceKey&, Slice& slice, ReleasedReplies*) {
    open = std::min(open, slice.next_step(worker));
  });
  MutexLock lock(&mu_);
  const bool has_operations = has_programs_ && slices_.count(kCollectiveSlice) > 0;
  return has_operations ? std::min(open, collectives_.OpenStep(worker)) : open;
}

template <typename Take>
ShardSnapshot Shard::CollectLocked(Take take) const {
  ShardSnapshot snapshot;
  for (const auto& [id, worker] : workers_) snapshot.workers.push_back(worker);
  for (const auto& [key, slice] : slices_) {
    snapshot.slices.push_back(take(*slice));
    snapshot.slices.back().key = key;
  }
  return snapshot;
}

ShardSnapshot Shard::Snapshot() {
  MutexLock lock(&mu_);
  return CollectLocked([](const Slice& slice) { return slice.Snapshot(); });
}

void Shard::CutAt(Step step, CutCallback on_cut) {
  Due due;
  {
    MutexLock lock(&mu_);
    on_cut_ = std::move(on_cut);
    first_uncut_ = slices_.begin();
    for (auto& [key, slice] : slices_) slice->CutAt(step, &due.replies);
    TakeCutLocked(due);
    CountRepliesLocked(due.replies);
  }
  Run(std::move(due));
}

void Shard::TakeCutLocked(Due& due) {
  if (on_cut_ == nullptr) return;
  while (first_uncut_ != slices_.end() && first_uncut_->second->has_cut()) ++first_uncut_;
  if (first_uncut_ != slices_.end()) return;
  due.cut = CollectLocked([](Slice& slice) { return slice.TakeCut(); });
  due.on_cut = std::exchange(on_cut_, nullptr);
}

bool Shard::ReadRow(SliceKey slice, uint64_t key, absl::Span<float> values) {
  MutexLock lock(&mu_);
  return slices_.at(slice)->ReadRow(key, values);
}

void Shard::SetSchedules(const TableSchedules& schedules) {
  ForEachSlice([&schedules](const SliceKey& key, Slice& slice, ReleasedReplies* released) {
    slice.SetSchedule(schedules.at(key.table.value()), released);
  });
}

Step Shard::HoldBack() {
  Step held_from;
  ForEachSlice([&held_from](const SliceKey&, Slice& slice, ReleasedReplies*) {
    held_from = std::max(held_from, slice.HoldBack());
  });
  return held_from;
}

void Shard::CancelParked(const absl::Status& status) {
  Due due;
  {
    MutexLock lock(&mu_);
    collectives_.Cancel(status, &due.replies);
    for (auto& [key, slice] : slices_) slice->CancelParked(status, &due.replies);
    CountRepliesLocked(due.replies);
  }
  Run(std::move(due));
}

}  // namespace capstan
