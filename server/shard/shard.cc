#include "server/shard/shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

// Rows of readers that wait for a shard's copy.
constexpr size_t kMostReadBytes = size_t{8} << 20;
// What a reader's call takes beside its values, and each of its rows.
constexpr size_t kReadBytes = 4096;
constexpr size_t kRowBytes = 64;

// Holds the lock, and measures how long the caller waited for it and holds it.
class ABSL_SCOPED_LOCKABLE MeasuredLock {
 public:
  // `clock` null: measures nothing. `counts` is guarded by the mutex.
  MeasuredLock(TurnMutex* mutex, const Clock* clock, ShardCounts* counts)
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

  TurnMutex& mutex_;
  const Clock* const clock_;
  ShardCounts& counts_;
  absl::Time begin_;
};

}  // namespace

Shard::~Shard() {
  MutexLock lock(&access_->mu);
  access_->shard = nullptr;
}

void Shard::Run(Due due) {
  for (auto& [done, reply] : due.replies) done(std::move(reply));
  if (due.sends_to > 0) SendChanges(due.sends_to);
  if (due.on_cut != nullptr) due.on_cut(std::move(due.cut));
  if (due.on_made != nullptr) due.on_made();
}

absl::Status Shard::AddSlice(SliceKey key, std::unique_ptr<Slice> slice,
                             const SliceSnapshot* snapshot) {
  if (snapshot != nullptr) RETURN_IF_ERROR(slice->Restore(*snapshot));
  TurnLock lock(&mu_);
  contents_.slices.emplace(key, std::move(slice));
  return absl::OkStatus();
}

void Shard::TakeOver(ShardContents contents) {
  TurnLock lock(&mu_);
  contents_ = std::move(contents);
  for (auto& [key, slice] : contents_.slices) slice->TakeOver(primary_since_);
}

void Shard::RestoreWorkers(absl::Span<const Worker> workers) {
  TurnLock lock(&mu_);
  for (const Worker& worker : workers) contents_.workers.emplace(worker.worker, worker);
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
    // What was answered by End would look like something else now.
    absl::Status status = end_;
    if (status.ok()) status = CheckEpochLocked(request.epoch);
    if (status.ok()) status = CheckSenderLocked(request.sender);
    const auto it = contents_.slices.find(request.slice);
    if (status.ok() && it == contents_.slices.end())
      status = absl::InternalError("no such slice here");
    if (status.ok()) {
      CountRequestLocked(request);
      DispatchLocked(std::move(request), *it->second, std::move(done), &due.replies);
      if (on_cut_ != nullptr && it->second->has_cut()) TakeCutLocked(due);
    } else {
      due.replies.emplace_back(std::move(done), ErrorReply(std::move(status)));
    }
    request.purpose = WorkerStatePull();  // What it brought is released before its reply.
    EndLocked(due);
  }
  Run(std::move(due));
}

void Shard::DispatchLocked(ExchangeRequest&& request, Slice& slice,
                           ParameterEndpoint::ReplyCallback done, ReleasedReplies* released) {
  const WorkerId worker = request.sender.worker;
  if (auto* collective = std::get_if<Collective>(&request.purpose)) {
    if (slice.IsWhole(collective->step)) {
      NoteExchangeLocked(request);
      return contents_.collectives.Exchange(worker, std::move(*collective), std::move(done),
                                            released);
    }
    released->emplace_back(
        std::move(done),
        ErrorReply(absl::UnimplementedError("operations of all workers need --consistency=bsp")));
    return;
  }
  NoteExchangeLocked(request);
  const bool is_first = request.slice == kCollectiveSlice && PushOf(request) != nullptr;
  slice.Exchange(std::move(request), std::move(done), released);
  if (is_first) NoteProgressLocked(worker, slice.next_step(worker), released);
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

void Shard::EndLocked(Due& due) {
  for (const auto& [done, reply] : due.replies) {
    counts_.sent.Add(reply.codec, reply.values.size_bytes());
  }
  for (auto& [done, reply] : due.replies) {
    if (!end_.ok() && reply.status.ok()) reply = ErrorReply(end_);
    reply.epoch = primary_since_;
  }
  if (copy_ == nullptr) return;
  copy_->Hold(clock_ == nullptr ? std::nullopt : std::optional(clock_->Now()), &due.replies);
  due.sends_to = copy_->BeginSending();
}

int64_t Shard::num_exchanges() const {
  TurnLock lock(&mu_);
  return counts_.exchanges();
}

ShardCounts Shard::counts() {
  TurnLock lock(&mu_);
  ShardCounts counts = counts_;
  counts.parked += contents_.collectives.num_parked();
  for (const auto& [key, slice] : contents_.slices) {
    counts.parked += slice->num_parked();
    counts.duplicate_pushes += slice->duplicate_pushes();
    counts.memory += slice->memory();
  }
  return counts;
}

void Shard::SetEpoch(Epoch epoch) {
  TurnLock lock(&mu_);
  epoch_ = std::max(epoch_, epoch);
}

absl::Status Shard::CheckEpochLocked(Epoch epoch) const {
  if (epoch > epoch_) {
    return absl::UnavailableError(
        absl::StrCat("this server has not heard of epoch ", epoch.value(), " yet"));
  }
  if (epoch >= primary_since_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("stale epoch ", epoch.value(), ": the current one is ", epoch_.value(),
                   ", and this server has the shard since ", primary_since_.value()));
}

absl::Status Shard::CheckSenderLocked(const Sender& sender) const {
  const auto it = contents_.workers.find(sender.worker);
  if (it == contents_.workers.end()) {
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
    TurnLock lock(&mu_);
    const Workers previous = std::exchange(contents_.workers, {});
    for (const Worker& worker : workers) contents_.workers.emplace(worker.worker, worker);
    if (copy_ != nullptr) copy_->NoteMembers(workers);
    for (auto& [key, slice] : contents_.slices) ChangeWorkersLocked(previous, *slice, &due.replies);
    if (const auto first = contents_.slices.find(kCollectiveSlice);
        first != contents_.slices.end()) {
      contents_.collectives.SetWorkers(workers, &due.replies);
      for (const Worker& worker : workers) {
        NoteProgressLocked(worker.worker, first->second->next_step(worker.worker), &due.replies);
      }
    }
    TakeCutLocked(due);
    EndLocked(due);
  }
  Run(std::move(due));
}

void Shard::ChangeWorkersLocked(const Workers& previous, Slice& slice,
                                ReleasedReplies* released) const {
  std::vector<WorkerId> added;
  std::vector<WorkerId> entered;
  for (const auto& [id, worker] : contents_.workers) {
    const auto known = previous.find(id);
    const bool is_known =
        known != previous.end() && known->second.incarnation == worker.incarnation;
    if (!is_known) added.push_back(id);
    const bool is_entered =
        is_known && !known->second.is_entering && known->second.first_step == worker.first_step;
    if (!is_entered && !worker.is_entering) entered.push_back(id);
  }
  if (!added.empty()) slice.AddWorkers(added, released);
  for (const auto& [id, worker] : contents_.workers) {
    const auto known = previous.find(id);
    if (worker.is_lost && known != previous.end() && !known->second.is_lost) slice.LoseWorker(id);
  }
  for (const WorkerId id : entered)
    slice.EnterWorker(id, contents_.workers.at(id).first_step, released);
  for (const auto& [id, worker] : previous) {
    if (contents_.workers.count(id) == 0) slice.RemoveWorker(id, released);
  }
}

template <typename Action>
void Shard::ForEachSlice(Action action) {
  Due due;
  {
    TurnLock lock(&mu_);
    for (auto& [key, slice] : contents_.slices) action(key, *slice, &due.replies);
    TakeCutLocked(due);
    EndLocked(due);
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
  TurnLock lock(&mu_);
  const bool has_operations = has_programs_ && contents_.slices.count(kCollectiveSlice) > 0;
  return has_operations ? std::min(open, contents_.collectives.OpenStep(worker)) : open;
}

template <typename Take>
ShardSnapshot Shard::CollectLocked(Take take) const {
  ShardSnapshot snapshot;
  for (const auto& [id, worker] : contents_.workers) snapshot.workers.push_back(worker);
  for (const auto& [key, slice] : contents_.slices) {
    snapshot.slices.push_back(take(*slice));
    snapshot.slices.back().key = key;
  }
  return snapshot;
}

ShardSnapshot Shard::Snapshot() {
  TurnLock lock(&mu_);
  return CollectLocked([](const Slice& slice) { return slice.Snapshot(); });
}

void Shard::CutAt(Step step, CutCallback on_cut) {
  Due due;
  {
    TurnLock lock(&mu_);
    on_cut_ = std::move(on_cut);
    first_uncut_ = contents_.slices.begin();
    for (auto& [key, slice] : contents_.slices) slice->CutAt(step, &due.replies);
    TakeCutLocked(due);
    EndLocked(due);
  }
  Run(std::move(due));
}

void Shard::TakeCutLocked(Due& due) {
  if (on_cut_ == nullptr) return;
  while (first_uncut_ != contents_.slices.end() && first_uncut_->second->has_cut()) ++first_uncut_;
  if (first_uncut_ != contents_.slices.end()) return;
  due.cut = CollectLocked([](Slice& slice) { return slice.TakeCut(); });
  due.cut.with_lock = [access = access_](absl::FunctionRef<void()> use) {
    MutexLock lock(&access->mu);
    if (access->shard == nullptr) return false;
    access->shard->UseLast(use);
    return true;
  };
  due.on_cut = std::exchange(on_cut_, nullptr);
}

void Shard::ReadRows(SliceKey slice, absl::Span<const uint64_t> keys, size_t dim,
                     ReadCallback done) {
  const size_t bytes = kReadBytes + keys.size() * (kRowBytes + dim * sizeof(float));
  Due due;
  {
    TurnLock lock(&mu_);
    const bool is_full = copy_ != nullptr && copy_->holds() && held_bytes_ >= kMostReadBytes;
    std::vector<std::vector<float>> rows;
    for (const uint64_t key : is_full ? absl::Span<const uint64_t>() : keys) {
      std::vector<float>& row = rows.emplace_back(dim);
      if (!contents_.slices.at(slice)->ReadRow(key, absl::MakeSpan(row))) row.clear();
    }
    held_bytes_ += bytes;
    due.replies.emplace_back(
        [this, bytes, done = std::move(done),
         rows = std::move(rows)](const ExchangeReply& reply) mutable {
          held_bytes_ -= bytes;
          reply.status.ok() ? done(std::move(rows)) : done(reply.status);
        },
        is_full
            ? ErrorReply(absl::UnavailableError("the rows of other readers wait for the shard's "
                                                "copy: ask again later"))
            : ExchangeReply());
    EndLocked(due);
  }
  Run(std::move(due));
}

void Shard::UseLast(absl::FunctionRef<void()> use) {
  mu_.LockLast();
  use();
  mu_.UnlockLast();
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

void Shard::End(const absl::Status& status) {
  Due due;
  {
    TurnLock lock(&mu_);
    end_ = status;
    contents_.collectives.Cancel(status, &due.replies);
    for (auto& [key, slice] : contents_.slices) slice->CancelParked(status, &due.replies);
    if (copy_ != nullptr) copy_->Cancel(status, &due.replies);
    TakeMadeLocked(due);
    for (auto& [done, reply] : due.replies) reply.epoch = primary_since_;
  }
  Run(std::move(due));
}

}  // namespace capstan
