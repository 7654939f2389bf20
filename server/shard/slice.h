#ifndef SERVER_SHARD_SLICE_H_
#define SERVER_SHARD_SLICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/exchange/parameter_endpoint.h"
#include "server/consistency/consistency_schedule.h"
#include "server/consistency/step_vector.h"
#include "server/consistency/update_scale.h"
#include "server/optimizer/optimizer.h"
#include "server/shard/decoded_gradient.h"
#include "server/shard/parked_pulls.h"
#include "server/shard/slice_state.h"
#include "server/shard/step_accumulator.h"
#include "server/shard/worker_counter.h"

namespace capstan {

// One slice: its parameters, who has pushed what, and the pulls that wait. Decides about every
// exchange of the slice: admit, apply, answer or park. Not thread-safe: its shard guards it.
class Slice {
 public:
  struct Options {
    std::string name;  // Required: names table and slice in errors, as in "slice 7 of fc1.weight"
    SliceState::Memory memory;                            // Required: with the initial values
    const Optimizer* optimizer = nullptr;                 // Required; outlives the slice
    std::shared_ptr<const ConsistencySchedule> schedule;  // Required
    UpdateScale update_scale = UpdateScale::kStaleness;  // of pushes that are applied by themselves
    bool check_finite = true;                    // refuse pushes that hold a NaN or an infinity
    WorkerCounter* non_finite_pushes = nullptr;  // Required; outlives the slice
  };

  explicit Slice(Options options);

  // A worker, or another life of one: what waits of the older life is FAILED_PRECONDITION.
  void AddWorker(WorkerId worker, ReleasedReplies* released);
  // A worker that was added has no updates below `first_step` but those that are here.
  void EnterWorker(WorkerId worker, Step first_step, ReleasedReplies* released);
  // A worker that left or died; what waited for it goes on.
  void RemoveWorker(WorkerId worker, ReleasedReplies* released);

  // Another schedule, which differs from the one before at steps from HoldBack's on at most; ends
  // the holding back.
  void SetSchedule(std::shared_ptr<const ConsistencySchedule> schedule, ReleasedReplies* released);
  // From now on, and until SetSchedule, admits no exchange of the returned step or a later one. It
  // is beyond all that were asked for before, and so far that nobody gets there soon.
  Step HoldBack();

  // Applies the push unless it was applied before, then answers the pull or parks it. Appends every
  // reply that is due. INVALID_ARGUMENT: wrong length, not finite, computed with a version that
  // does not exist yet, or the pull is of a step that the worker gets to after pushes that it still
  // owes; parameters are unchanged. FAILED_PRECONDITION: the push is not of the worker's next step,
  // or the step is out of the window of the consistency policy. UNAVAILABLE: the push's step is
  // held back.
  void Exchange(ExchangeRequest&& request, ParameterEndpoint::ReplyCallback done,
                ReleasedReplies* released);

  // Answers all parked pulls with `status`.
  void CancelParked(const absl::Status& status, ReleasedReplies* released);

  uint64_t version() const { return state_.version(); }
  // The step of which a worker that was added pushes next.
  Step next_step(WorkerId worker) const { return steps_.completed(worker); }
  size_t size() const { return state_.size(); }

 private:
  // What the learning rate was divided by; 0: the push is kept, or was applied before.
  absl::StatusOr<uint64_t> Push(ExchangeRequest& request);
  // Keep the gradient until its step is complete, or apply it where it lies. Both return as Push;
  // INVALID_ARGUMENT when it is not finite.
  absl::StatusOr<uint64_t> Keep(const ExchangeRequest& request, DecodedGradient gradient);
  absl::StatusOr<uint64_t> ApplyNow(const ExchangeRequest& request,
                                    const DecodedGradient& gradient);
  absl::Status NotFinite(const ExchangeRequest& request);
  absl::Status CheckPush(const ExchangeRequest& request) const;
  absl::Status CheckPull(const ExchangeRequest& request) const;
  // Applies the pushes that were kept for the new min_step, then releases the pulls that this
  // allows.
  void AfterAdvance(Step previous_min_step, ReleasedReplies* released);
  void ApplyKept();
  void ReleaseParked(ReleasedReplies* released);
  bool IsHeldBack(Step step) const { return held_from_.has_value() && step >= *held_from_; }
  // What the learning rate is divided by if the push is the next update, by itself.
  uint64_t DivisorOf(std::optional<uint64_t> base_version) const;
  // The mean of the pushes that were kept for `step`.
  void ApplyMean(Step step);
  void AnswerOrPark(WorkerId worker, ParkedPull pull, ReleasedReplies* released);
  ExchangeReply MakeReply(uint64_t learning_rate_divisor) const;

  const std::string name_;
  const UpdateScale update_scale_;
  const bool check_finite_;
  WorkerCounter& non_finite_pushes_;

  SliceState state_;
  std::shared_ptr<const ConsistencySchedule> schedule_;
  Step largest_step_;              // of all exchanges so far
  std::optional<Step> held_from_;  // of HoldBack
  StepVector steps_;
  StepAccumulator accumulator_;
  ParkedPulls parked_;
};

}  // namespace capstan

#endif  // SERVER_SHARD_SLICE_H_
