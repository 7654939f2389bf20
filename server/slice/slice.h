#ifndef SERVER_SLICE_SLICE_H_
#define SERVER_SLICE_SLICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "server/consistency/consistency_schedule.h"
#include "server/consistency/step_vector.h"
#include "server/consistency/update_scale.h"
#include "server/slice/check_step.h"
#include "server/slice/own_states.h"
#include "server/slice/parked_pulls.h"
#include "server/slice/push_log.h"
#include "server/slice/push_receipts.h"
#include "server/slice/shard_counts.h"
#include "server/slice/shard_snapshot.h"
#include "server/slice/slice_changes.h"

namespace capstan {

// The halves of a step's exchange, whatever the kind of the table. Both are read before anything
// changes.
struct CheckedStep {
  std::optional<CheckedPush> push;
  std::optional<ParkedPull> pull;  // so far without its callback
};

// Counts something for each worker. Thread-safe.
class WorkerCounter {
 public:
  void Increment(WorkerId worker) {
    MutexLock lock(&mu_);
    ++counts_[worker];
  }
  std::map<WorkerId, int64_t> counts() const {
    MutexLock lock(&mu_);
    return counts_;
  }

 private:
  mutable Mutex mu_;
  std::map<WorkerId, int64_t> counts_ ABSL_GUARDED_BY(mu_);
};

// One slice: the progress of its workers, and its parked pulls. Decides about every exchange of the
// slice: admit, apply, answer or park. A derived class has the values, and knows how a push changes
// them. Not thread-safe: the slice's shard guards it.
class Slice {
 public:
  struct Options {
    std::string name;  // Required: for errors, as in "slice 7 of table fc1.weight"
    // The initial values come from worker 0. Until then no pull is answered, no push is admitted,
    // and no cut is made.
    bool awaits_initial = false;
    std::shared_ptr<const ConsistencySchedule> schedule;  // Required
    UpdateScale update_scale = UpdateScale::kStaleness;   // of pushes that are not averaged
    bool check_finite = true;                             // refuse a NaN or an infinity
    // The program runs the optimizer, so worker 0 sends the table's state for each cut. Anything is
    // a gradient then.
    bool replies_mean = false;
    // Workers can go on for this number of steps while servers and coordinator settle a change. At
    // least 1 if there is a copy: it does not know of pulls alone, which are one step ahead.
    int64_t steps_until_held_back = 2;
    WorkerCounter* non_finite_pushes = nullptr;  // Required; outlives the slice
  };

  virtual ~Slice() = default;
  Slice(const Slice&) = delete;
  Slice& operator=(const Slice&) = delete;

  // Adds workers, or new incarnations of workers. Their parked pulls are answered
  // FAILED_PRECONDITION. Those of one view come at once: otherwise the first would not wait for the
  // others.
  void AddWorkers(absl::Span<const WorkerId> workers, ReleasedReplies* released);
  // An added worker's process begins with `first_step`, if it has not pushed a later one. Until it
  // has pushed that step, its pull of it is answered with the values before the step, if they are
  // kept.
  void EnterWorker(WorkerId worker, Step first_step, ReleasedReplies* released);
  // The worker left or died. Nothing waits for it any more.
  void RemoveWorker(WorkerId worker, ReleasedReplies* released);
  // The worker was lost, and its place is held. What it has pushed stays.
  void LoseWorker(WorkerId worker);

  // Replaces the schedule and ends the holding back. Old and new schedule may differ only from
  // HoldBack's step on.
  void SetSchedule(std::shared_ptr<const ConsistencySchedule> schedule, ReleasedReplies* released);
  // Until SetSchedule, admits no exchange of the returned step or a later one. The returned step is
  // beyond all steps requested so far, by steps_until_held_back more.
  Step HoldBack();

  // Applies the push unless it was applied before, then answers the pull or parks it. A push alone
  // is answered once it is applied. Appends due replies to `released`. No error changes parameters.
  // INVALID_ARGUMENT: the step is of the other kind of table; the gradient has another codec or a
  // wrong length, is not finite, or names a future version; or the worker has not yet pushed the
  // steps before its pull. FAILED_PRECONDITION: the push is not of the worker's next step, or the
  // consistency policy no longer admits the push or pull, or not yet; or worker 0 has not sent the
  // initial values yet (a push), or was lost before (a pull). UNAVAILABLE: the push's step is held
  // back. An exchange of own state, of the optimizer's or of initial values is answered at once:
  // INVALID_ARGUMENT if they have a wrong length, or are not finite where they must be;
  // RESOURCE_EXHAUSTED.
  void Exchange(ExchangeRequest&& request, ParameterEndpoint::ReplyCallback done,
                ReleasedReplies* released);

  // Takes a snapshot at the first moment when all whole steps before `step` have been applied. If
  // step - 1 is a whole step, the snapshot has nothing of `step` or later. No exchange of `step` or
  // later may have been admitted yet. Ends the holding back.
  void CutAt(Step step, ReleasedReplies* released);
  // The snapshot is whole: it has the own state of each worker that was live at the cut and is
  // still there. Replies after the cut have its number, and make the workers send their state.
  bool has_cut() const { return cut_ != nullptr && own_.is_complete(); }
  // That snapshot, if has_cut. The caller sets the key, and copies the rows (CopyRows).
  SliceSnapshot TakeCut();

  // What the slice is now, without its parked pulls and without own states. Kept pushes are copied.
  // So are rows; memory of a dense slice is copied by the next update. The caller sets the key.
  SliceSnapshot Snapshot() const;
  // Goes on where another slice was, whose values the constructor got. Options::schedule begins
  // like the snapshot's. The snapshot's live workers count until they are removed. Only before the
  // first exchange. RESOURCE_EXHAUSTED.
  absl::Status Restore(const SliceSnapshot& snapshot);

  // Answers all that waits with `status`.
  void CancelParked(const absl::Status& status, ReleasedReplies* released) {
    parked_.Cancel(status, released);
    receipts_.Cancel(status, released);
  }

  // From now on notes every change there. Null: no more. The sink outlives the slice.
  void NoteChanges(ChangeSink* sink, SliceKey key);
  // What another server needs to have the slice as it is. The snapshot has no pushes that workers
  // can send again.
  struct Copy {
    SliceSnapshot snapshot;
    v1::CopiedSlice rest;
    Payload rest_bytes;  // of the fields of `rest`
  };
  Copy MakeCopy() const;
  // The same, but rows are still to be copied (SliceSnapshot::rows_cut).
  Copy BeginCopy();
  // Goes on as a copy, after Restore of its snapshot. INVALID_ARGUMENT; RESOURCE_EXHAUSTED.
  absl::Status RestoreCopy(const v1::CopiedSlice& rest, PayloadReader& bytes);
  // After it, of a sparse table: some of its rows, and with the last ones all else of it.
  // INVALID_ARGUMENT.
  virtual absl::Status AddCopiedRows(const SparseRowsSnapshot& /*rows*/, bool /*is_last*/) {
    return absl::InvalidArgumentError("a dense table has no rows");
  }
  // Does what the slice of which this is a copy has noted. INVALID_ARGUMENT: it does not fit.
  absl::Status Follow(const v1::ReplicaChange& change, const Payload& payload);
  // The copy takes the place of the slice of which it is one, and is the primary's from `epoch` on.
  virtual void TakeOver(Epoch /*epoch*/) {}
  // Notes Hash, so that the copy looks whether it has the same.
  void NoteHash() const;
  // The XXH3-64 of values and optimizer's state; of rows, of all that they are.
  virtual uint64_t Hash() const = 0;

  // Number of optimizer applications.
  virtual uint64_t version() const = 0;
  // Sets `values` to the row of the key, and is true if there is one. A dense slice has none.
  virtual bool ReadRow(uint64_t /*key*/, absl::Span<float> /*values*/) const { return false; }
  // Whether all workers pull the same versions of `step`.
  bool IsWhole(Step step) const { return schedule_->AppliesWholeStep(step); }
  // The step of an added worker's next push.
  Step next_step(WorkerId worker) const { return steps_.completed(worker); }

  // Pushes that were applied before, and not again.
  int64_t duplicate_pushes() const { return duplicate_pushes_; }
  int64_t num_parked() const { return parked_.size() + receipts_.size(); }
  virtual SliceMemory memory() const = 0;

 protected:
  // A worker's own state has `own_arrays` arrays, each of `size` floats.
  Slice(Options options, uint32_t own_arrays, size_t size);

  const std::string& name() const { return name_; }
  bool checks_finite() const { return check_finite_; }
  const StepVector& steps() const { return steps_; }
  const PushLog& kept() const { return kept_; }
  // Whether a push of `step` is kept until the schedule lets it be applied.
  bool IsKept(Step step) const { return steps_.min_step() < schedule_->KeptUntil(step); }
  // The push without its gradient.
  static CheckedPush HeadOf(WorkerId worker, const StepPush& push) {
    return {push.step, worker, push.base_version, push.rates};
  }
  // Where a derived class notes its own changes.
  const SliceChanges& changes() const { return changes_; }
  SliceChanges::Now Now() const { return {version(), steps_.min_step(), largest_step_}; }
  // Whether the push was applied before. In one process, its memory may have the worker's next
  // gradient by now.
  bool IsAgain(WorkerId worker, const StepPush& push) const {
    return !is_following_ && push.step < steps_.completed(worker);
  }
  // The divisor of the learning rate if the push is the next update.
  uint64_t DivisorOf(std::optional<uint64_t> base_version) const {
    const uint64_t now = version();
    return LearningRateDivisor(update_scale_, steps_.live_count(),
                               now - base_version.value_or(now));
  }
  // A reply without values.
  ExchangeReply MakeReply(uint64_t learning_rate_divisor) const;

 private:
  // What a derived class does with the values:

  // Read the step of a dense or of a sparse table. A derived class has one of them. The other one
  // refuses. INVALID_ARGUMENT; NOT_FOUND as of an endpoint.
  virtual absl::Status ReadDense(WorkerId worker, DenseStep&& step, CheckedStep* read) const;
  virtual absl::Status ReadRows(WorkerId worker, RowStep&& step, CheckedStep* read);
  // Applies a push with a gradient.
  virtual void Apply(const CheckedPush& push, uint64_t learning_rate_divisor) = 0;
  // Applies the mean of the pushes of `step`. One of them has a gradient. `mean` null: nobody needs
  // it.
  virtual void ApplyMean(Step step, PushesOfStep pushes, MeanForCopy* mean) = 0;
  // The worker's push of `step` is admitted.
  virtual void NotePush(WorkerId /*worker*/, Step /*step*/) {}
  // The reply to a pull, with the current values.
  virtual ExchangeReply ReplyWithValues(WorkerId worker, const ParkedPull& pull) = 0;
  // All live workers have done `step`, a whole one, which is applied next. The values before it may
  // be kept.
  virtual void KeepValuesOf(Step /*step*/) {}
  // The reply to a pull at a step that has been applied, with the values before it. None: they are
  // gone.
  virtual std::optional<ExchangeReply> ReplyWithKept(const ParkedPull& /*pull*/) {
    return std::nullopt;
  }
  virtual absl::Status SetInitialValues(const Payload& values) = 0;
  // These are the parameters of a table that replies the mean.
  virtual void SetParameters(const Payload& /*values*/) {}
  // The replies to an exchange of the optimizer's state. A sparse table has it in its rows, and
  // refuses.
  virtual ExchangeReply TakeOptimizerState(const OptimizerState& state) = 0;
  virtual ExchangeReply ReadOptimizerState(uint32_t array) const = 0;
  // Drops what is there for a worker that has left, or begins anew.
  virtual void Forget(WorkerId worker) = 0;
  // For a copy: read a push, or the mean of a step, as a push of its first worker.
  virtual absl::StatusOr<CheckedPush> ReadNoted(const v1::PushHead& head,
                                                PayloadReader& payload) = 0;
  virtual absl::StatusOr<CheckedPush> ReadMean(const v1::AppliedStep& step,
                                               PayloadReader& payload) const = 0;
  // A change that only a derived class notes.
  virtual absl::Status FollowOwn(const v1::ReplicaChange& change, const Payload& payload) = 0;
  // Adds what checkpoints leave out, in the order of the message, and takes it.
  virtual void SaveForCopy(Copy& copy) const = 0;
  virtual absl::Status LoadForCopy(const v1::CopiedSlice& rest, PayloadReader& bytes) = 0;
  // Add the values to a snapshot, and take them from it.
  virtual void Save(SliceSnapshot& snapshot) const = 0;
  // As Save, for a cut: rows may be copied later (SliceSnapshot::rows_cut).
  virtual void SaveCut(SliceSnapshot& snapshot) { Save(snapshot); }
  virtual absl::Status Load(const SliceSnapshot& snapshot) = 0;

  // Checks the steps of a pull, then reads both halves.
  absl::Status Read(ExchangeRequest&& request, CheckedStep* read);
  StepContext Context() const {
    return {name_, steps_, *schedule_, version(), awaits_initial_, held_from_};
  }
  void ExchangeStep(WorkerId worker, CheckedStep&& step, ParameterEndpoint::ReplyCallback done,
                    ReleasedReplies* released);
  // Returns the divisor of the learning rate; 0: the push is kept, is empty, or was applied before.
  absl::StatusOr<uint64_t> Push(WorkerId worker, CheckedPush&& push);
  // Counts a push that is not finite, and returns the error.
  absl::Status NotFinite(WorkerId worker, Step step);
  ExchangeReply KeepState(WorkerId worker, const WorkerState& state);
  ExchangeReply KeepTableState(WorkerId worker, const TableState& state);
  ExchangeReply RestoredState(WorkerId worker, bool is_program) const;
  void TakeInitialValues(const Payload& values, ParameterEndpoint::ReplyCallback done,
                         ReleasedReplies* released);
  // If min_step has advanced, applies kept pushes, then answers parked pulls.
  void AfterAdvance(Step previous_min_step, ReleasedReplies* released);
  // Applies the kept pushes whose turn it is: the mean of a whole step, or one after the other.
  void ApplyKept(ReleasedReplies* released);
  void ApplyWhole(Step step, ReleasedReplies* released);
  void ApplyOne(Step step, ReleasedReplies* released);
  // Nobody can send the worker's kept pushes again.
  void Orphan(WorkerId worker);
  // The workers without kept pushes that they can send again.
  std::vector<StepVector::Entry> AppliedEntries() const;
  absl::Status FollowKind(const v1::ReplicaChange& change, const Payload& payload);
  absl::Status FollowStep(const v1::ReplicaChange& change, const Payload& payload);
  absl::Status FollowPush(const v1::ReplicaChange& change, const Payload& payload);
  absl::Status FollowKept(const v1::ReplicaChange& change, const Payload& payload);
  void FollowMembers(const v1::ReplicaChange& change);
  absl::StatusOr<CheckedPush> ReadKnown(const v1::PushHead& head, PayloadReader& payload);
  // Whether the steps before the pending cut end with a whole one.
  bool IsExactCutPending() const;
  void CutIfDue();
  void Cut();
  virtual void SaveForCopyLater(SliceSnapshot& snapshot) { Save(snapshot); }
  // A copy without the values.
  Copy ProgressForCopy() const;
  // A snapshot without the values.
  SliceSnapshot Progress() const;
  void ReleaseParked(ReleasedReplies* released);
  bool IsHeldBack(Step step) const { return held_from_.has_value() && step >= *held_from_; }
  void AnswerOrPark(WorkerId worker, ParkedPull pull, ReleasedReplies* released);

  const std::string name_;
  const UpdateScale update_scale_;
  const bool check_finite_;
  const bool replies_mean_;
  uint64_t parameters_cut_ = 0;  // for which SetParameters was called last
  const size_t size_bytes_;      // of the values
  WorkerCounter& non_finite_pushes_;
  const int64_t steps_until_held_back_;

  bool awaits_initial_;
  std::shared_ptr<const ConsistencySchedule> schedule_;
  Step largest_step_;                   // of all exchanges so far
  std::optional<Step> held_from_;       // HoldBack's step; none: nothing is held back
  std::optional<Step> cut_step_;        // CutAt's step, until the cut
  std::unique_ptr<SliceSnapshot> cut_;  // null: none, or taken
  StepVector steps_;
  PushLog kept_;
  ParkedPulls parked_;
  PushReceipts receipts_;
  SliceChanges changes_;
  bool is_following_ = false;  // within Follow
  OwnStates own_;
  int64_t duplicate_pushes_ = 0;
};

}  // namespace capstan

#endif  // SERVER_SLICE_SLICE_H_
