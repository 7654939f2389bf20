#ifndef SERVER_SHARD_SLICE_H_
#define SERVER_SHARD_SLICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/exchange/parameter_endpoint.h"
#include "server/consistency/consistency_schedule.h"
#include "server/consistency/step_vector.h"
#include "server/consistency/update_scale.h"
#include "server/optimizer/optimizer.h"
#include "server/shard/encoded_gradient.h"
#include "server/shard/encoded_values.h"
#include "server/shard/own_states.h"
#include "server/shard/parked_pulls.h"
#include "server/shard/shard_counts.h"
#include "server/shard/shard_snapshot.h"
#include "server/shard/slice_state.h"
#include "server/shard/step_accumulator.h"
#include "server/shard/worker_copies.h"

namespace capstan {

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

// One slice: its parameters, the progress of its workers, and its parked pulls. Decides about every
// exchange of the slice: admit, apply, answer or park. Not thread-safe: its shard guards it.
class Slice {
 public:
  struct Options {
    std::string name;           // Required: for errors, as in "slice 7 of table fc1.weight"
    SliceState::Memory memory;  // Required: with the initial values
    // The initial values come from worker 0. Until then no pull is answered, no push is admitted,
    // and no cut is made.
    bool awaits_initial = false;
    const Optimizer* optimizer = nullptr;                 // Required; outlives the slice
    std::shared_ptr<const ConsistencySchedule> schedule;  // Required
    UpdateScale update_scale = UpdateScale::kStaleness;   // of pushes that are not averaged
    bool check_finite = true;                             // refuse a NaN or an infinity
    WorkerCounter* non_finite_pushes = nullptr;           // Required; outlives the slice
    uint32_t own_arrays = 0;                              // of each worker's own state
    TableCodecs codecs;                                   // Required: of pushes and pulls
    DrawKey pull_draws;  // of encoded values; their version takes the place of the step
    ReplyStateBudget* reply_state = nullptr;  // Required for a topk of pulls; outlives the slice
  };

  explicit Slice(Options options);

  // Adds a worker, or a new incarnation of a worker. A parked pull of the worker is answered
  // FAILED_PRECONDITION.
  void AddWorker(WorkerId worker, ReleasedReplies* released);
  // An added worker will push no step before `first_step`.
  void EnterWorker(WorkerId worker, Step first_step, ReleasedReplies* released);
  // The worker left or died. Nothing waits for it any more.
  void RemoveWorker(WorkerId worker, ReleasedReplies* released);

  // Replaces the schedule and ends the holding back. Old and new schedule may differ only from
  // HoldBack's step on.
  void SetSchedule(std::shared_ptr<const ConsistencySchedule> schedule, ReleasedReplies* released);
  // Until SetSchedule, admits no exchange of the returned step or a later one. The returned step is
  // beyond all steps requested so far. Workers need a few more steps to reach it.
  Step HoldBack();

  // Applies the push unless it was applied before, then answers the pull or parks it. Appends due
  // replies to `released`. No error changes parameters. INVALID_ARGUMENT: the gradient has
  // another codec or a wrong length, is not finite, or names a future version; or the worker has
  // not yet pushed the steps before its pull. FAILED_PRECONDITION: the push is not of the worker's
  // next step, or the consistency policy no longer admits the push or pull, or not yet; or worker 0
  // has not sent the initial values yet (a push), or was lost before (a pull). UNAVAILABLE: the
  // push's step is held back. An exchange of own state or of initial values is answered at once:
  // INVALID_ARGUMENT if they have a wrong length, or initial values are not finite;
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
  // That snapshot, if has_cut. The caller sets the key.
  SliceSnapshot TakeCut();

  // What the slice is now, without its parked pulls and without own states. Cheap: memory is copied
  // by the next update, and kept pushes at once. The caller sets the key.
  SliceSnapshot Snapshot() const;
  // Goes on where another slice was. Options::memory is SliceState::Take, and Options::schedule
  // begins like the snapshot's. Its live workers count until they are removed. Only before the
  // first exchange. RESOURCE_EXHAUSTED.
  absl::Status Restore(const SliceSnapshot& snapshot);

  // Answers all parked pulls with `status`.
  void CancelParked(const absl::Status& status, ReleasedReplies* released);

  uint64_t version() const { return state_.version(); }
  // The current values. No update changes them while a copy of the payload lives.
  Payload values() const { return state_.Share(); }
  // The step of an added worker's next push.
  Step next_step(WorkerId worker) const { return steps_.completed(worker); }
  size_t size() const { return state_.size(); }

  // Pushes that were applied before, and not again.
  int64_t duplicate_pushes() const { return duplicate_pushes_; }
  int64_t num_parked() const { return parked_.size(); }
  SliceMemory memory() const;

 private:
  // Returns the divisor of the learning rate; 0: the push is kept, is empty, or was applied before.
  absl::StatusOr<uint64_t> Push(ExchangeRequest& request);
  absl::Status PushNothing(const ExchangeRequest& request);
  absl::StatusOr<uint64_t> PushGradient(ExchangeRequest& request);
  bool IsKept(Step step) const { return steps_.min_step() < schedule_->KeptUntil(step); }
  // Keep the gradient until the schedule lets it be applied, or apply it in place. Both return as
  // Push. INVALID_ARGUMENT if it is not finite.
  absl::StatusOr<uint64_t> Keep(const ExchangeRequest& request, EncodedGradient gradient);
  absl::StatusOr<uint64_t> ApplyNow(const ExchangeRequest& request,
                                    const EncodedGradient& gradient);
  absl::Status NotFinite(const ExchangeRequest& request);
  ExchangeReply ExchangeOwnState(const ExchangeRequest& request);
  absl::Status CheckInitialValues(const ExchangeRequest& request) const;
  void TakeInitialValues(const ExchangeRequest& request, ParameterEndpoint::ReplyCallback done,
                         ReleasedReplies* released);
  absl::Status CheckPush(const ExchangeRequest& request) const;
  absl::Status CheckPull(const ExchangeRequest& request) const;
  // If min_step has advanced, applies kept pushes, then answers parked pulls.
  void AfterAdvance(Step previous_min_step, ReleasedReplies* released);
  void ApplyKept();
  // Whether the steps before the pending cut end with a whole one.
  bool IsExactCutPending() const;
  void CutIfDue();
  void Cut();
  void ReleaseParked(ReleasedReplies* released);
  bool IsHeldBack(Step step) const { return held_from_.has_value() && step >= *held_from_; }
  // The divisor of the learning rate if the push is the next update.
  uint64_t DivisorOf(std::optional<uint64_t> base_version) const;
  // Applies the mean of the kept pushes of `step`, if one of them has a gradient.
  void ApplyMean(Step step);
  void ApplyOne(Step step);
  void AnswerOrPark(WorkerId worker, ParkedPull pull, ReleasedReplies* released);
  ExchangeReply MakeReply(uint64_t learning_rate_divisor) const;
  // The reply to a pull, with the current values.
  ExchangeReply ReplyWithValues(WorkerId worker, const ParkedPull& pull);
  absl::StatusOr<WorkerCopies::Reply> EncodedReply(WorkerId worker, const ParkedPull& pull);

  const std::string name_;
  const UpdateScale update_scale_;
  const bool check_finite_;
  WorkerCounter& non_finite_pushes_;
  const TableCodecs codecs_;

  bool awaits_initial_;
  SliceState state_;
  EncodedValues encoded_values_;
  WorkerCopies copies_;  // used if codecs_.pull is a topk
  std::shared_ptr<const ConsistencySchedule> schedule_;
  Step largest_step_;                   // of all exchanges so far
  std::optional<Step> held_from_;       // HoldBack's step; none: nothing is held back
  std::optional<Step> cut_step_;        // CutAt's step, until the cut
  std::unique_ptr<SliceSnapshot> cut_;  // null: none, or taken
  StepVector steps_;
  StepAccumulator accumulator_;
  ParkedPulls parked_;
  OwnStates own_;
  int64_t duplicate_pushes_ = 0;
};

}  // namespace capstan

#endif  // SERVER_SHARD_SLICE_H_
