#include "server/shard/slice.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/codec.h"

namespace capstan {
namespace {

// Workers can go on for this number of steps while servers and coordinator settle a change.
constexpr int64_t kStepsUntilHeldBack = 2;

// Sends the initial values.
constexpr WorkerId kFirstWorker(0);

// Leaves nothing of `step` or later. Its values have the steps before.
void EndAt(Step step, SliceSnapshot& snapshot) {
  snapshot.min_step = std::min(snapshot.min_step, step);
  snapshot.largest_step = std::min(snapshot.largest_step, step);
  for (StepVector::Entry& worker : snapshot.workers) {
    worker.completed = std::min(worker.completed, step);
  }
  auto& kept = snapshot.kept;
  kept.erase(
      std::remove_if(kept.begin(), kept.end(),
                     [step](const SliceSnapshot::KeptPush& push) { return push.step >= step; }),
      kept.end());
}

}  // namespace

Slice::Slice(Options options, uint32_t own_arrays, size_t size)
    : name_(std::move(options.name)),
      update_scale_(options.update_scale),
      check_finite_(options.check_finite),
      non_finite_pushes_(*options.non_finite_pushes),
      awaits_initial_(options.awaits_initial),
      schedule_(std::move(options.schedule)),
      parked_(name_),
      own_(own_arrays, size) {}

void Slice::AddWorkers(absl::Span<const WorkerId> workers, ReleasedReplies* released) {
  for (const WorkerId worker : workers) {
    parked_.Refuse(worker, released);
    own_.AddWorker(worker);
    Forget(worker);
  }
  const Step before = steps_.min_step();
  steps_.Add(workers);
  AfterAdvance(before, released);
}

void Slice::EnterWorker(WorkerId worker, Step first_step, ReleasedReplies* released) {
  const Step before = steps_.min_step();
  steps_.Enter(worker, first_step);
  AfterAdvance(before, released);
}

void Slice::RemoveWorker(WorkerId worker, ReleasedReplies* released) {
  const Step before = steps_.min_step();
  own_.RemoveWorker(worker);
  Forget(worker);
  steps_.Remove(worker);
  // Pulls that wait for the worker's initial values get an error.
  if (awaits_initial_ && worker == kFirstWorker) ReleaseParked(released);
  AfterAdvance(before, released);
}

void Slice::SetSchedule(std::shared_ptr<const ConsistencySchedule> schedule,
                        ReleasedReplies* released) {
  schedule_ = std::move(schedule);
  held_from_.reset();
  ReleaseParked(released);
}

Step Slice::HoldBack() {
  if (!held_from_.has_value()) {
    constexpr int64_t kAhead = 1 + kStepsUntilHeldBack;
    const Step last(std::numeric_limits<int64_t>::max() - kAhead);
    held_from_ = std::min(largest_step_, last) + kAhead;
  }
  return *held_from_;
}

void Slice::Exchange(ExchangeRequest&& request, ParameterEndpoint::ReplyCallback done,
                     ReleasedReplies* released) {
  if (MovesOwnState(request)) {
    released->emplace_back(std::move(done), ExchangeOwnState(request));
    return;
  }
  if (request.is_initial) return TakeInitialValues(request, std::move(done), released);
  std::optional<ParkedPull> pull;
  if (absl::Status status = ReadPull(request, &pull); !status.ok()) {
    released->emplace_back(std::move(done), ErrorReply(std::move(status)));
    return;
  }
  uint64_t divisor = 0;
  if (request.push_step.has_value()) {
    const Step before = steps_.min_step();
    duplicate_pushes_ += *request.push_step < steps_.completed(request.worker);
    absl::StatusOr<uint64_t> pushed = Push(request);
    if (!pushed.ok()) {
      released->emplace_back(std::move(done), ErrorReply(std::move(pushed).status()));
      return;
    }
    divisor = *pushed;
    AfterAdvance(before, released);
  }
  if (!pull.has_value()) {
    released->emplace_back(std::move(done), MakeReply(divisor));
    return;
  }
  largest_step_ = std::max(largest_step_, pull->step);
  pull->learning_rate_divisor = divisor;
  pull->done = std::move(done);
  AnswerOrPark(request.worker, *std::move(pull), released);
}

ExchangeReply Slice::ExchangeOwnState(const ExchangeRequest& request) {
  if (!request.pulls_own) {
    if (request.codec != CodecType::kFloat32) {
      return ErrorReply(absl::InvalidArgumentError(absl::StrCat(
          name_, ": expected an own state of codec ", static_cast<int>(CodecType::kFloat32),
          " (float32), got codec ", static_cast<int>(request.codec))));
    }
    const absl::Status kept = own_.Keep(request.worker, request.own_cut, request.gradient);
    if (!kept.ok()) return ErrorReply(Annotate(kept, name_));
  }
  ExchangeReply reply = MakeReply(/*learning_rate_divisor=*/0);
  if (request.pulls_own) reply.values = own_.Restored(request.worker);
  return reply;
}

void Slice::TakeInitialValues(const ExchangeRequest& request, ParameterEndpoint::ReplyCallback done,
                              ReleasedReplies* released) {
  // Otherwise they were sent before, or come from a file.
  const bool is_awaited = awaits_initial_;
  if (absl::Status status = is_awaited ? SetInitialValues(request) : absl::OkStatus();
      !status.ok()) {
    released->emplace_back(std::move(done), ErrorReply(std::move(status)));
    return;
  }
  released->emplace_back(std::move(done), MakeReply(/*learning_rate_divisor=*/0));
  if (!is_awaited) return;
  awaits_initial_ = false;
  CutIfDue();
  ReleaseParked(released);
}

absl::Status Slice::CheckPush(const ExchangeRequest& request) const {
  if (awaits_initial_) {
    return absl::FailedPreconditionError(absl::StrCat(
        name_, ": expected no push before the initial values of worker 0; pull the values first"));
  }
  if (const Step next = steps_.completed(request.worker); *request.push_step != next) {
    return absl::FailedPreconditionError(
        absl::StrCat(name_, ": expected the push of step ", next.value(), " of worker ",
                     request.worker.value(), ", got step ", request.push_step->value()));
  }
  if (request.base_version.has_value() && *request.base_version > version()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name_, ": expected a gradient computed with version ", version(), " or an older one, got ",
        *request.base_version, "; send the version that came with the values"));
  }
  const Step step = *request.push_step;
  if (IsHeldBack(step)) {
    return absl::UnavailableError(
        absl::StrCat(name_,
                     ": a change of the consistency, or a checkpoint, from "
                     "step ",
                     held_from_->value(), " on, or later, is being settled"));
  }
  if (steps_.min_step() >= schedule_->KeptUntil(step)) {
    // A late push of a worker that was declared dead belongs to no open step.
    if (!schedule_->AppliesWholeStep(step)) return absl::OkStatus();
  } else {
    // Kept pushes need bounded memory: a worker is at most one step ahead of the slowest.
    const Step open = std::max(steps_.min_step(), schedule_->FirstKept(step));
    if (step <= open + 1) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(name_, ": push of step ", step.value(), ", but step ", steps_.min_step().value(),
                   " is open: under BSP expected that step or the next"));
}

absl::Status Slice::ReadPull(ExchangeRequest& request, std::optional<ParkedPull>* pull) {
  if (!request.pull_step.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckPull(request));
  ASSIGN_OR_RETURN(*pull, TakePull(request));
  return absl::OkStatus();
}

absl::Status Slice::CheckPull(const ExchangeRequest& request) const {
  const Step completed = steps_.completed(request.worker);
  if (*request.pull_step <= completed) return absl::OkStatus();
  if (request.push_step.has_value() && *request.pull_step - *request.push_step <= 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      name_, ": expected a pull of worker ", request.worker.value(), " at step ", completed.value(),
      " at most, because it has not pushed its update of that step, got step ",
      request.pull_step->value(), "; push the steps before it first"));
}

absl::StatusOr<uint64_t> Slice::Push(ExchangeRequest& request) {
  const Step step = *request.push_step;
  // It was applied before. In one process, its memory may have the worker's next gradient by now.
  if (step < steps_.completed(request.worker)) return 0;
  uint64_t divisor = 0;
  if (request.is_empty_push) {
    RETURN_IF_ERROR(PushNothing(request));
  } else {
    ASSIGN_OR_RETURN(divisor, PushGradient(request));
  }
  largest_step_ = std::max(largest_step_, step);
  steps_.Advance(request.worker, step);
  own_.NotePush(request.worker);
  return divisor;
}

absl::Status Slice::PushNothing(const ExchangeRequest& request) {
  RETURN_IF_ERROR(CheckPush(request));
  // It counts in the mean of a whole step.
  if (IsKept(*request.push_step)) KeepNothing(request);
  return absl::OkStatus();
}

absl::Status Slice::NotFinite(const ExchangeRequest& request) {
  non_finite_pushes_.Increment(request.worker);
  return absl::InvalidArgumentError(absl::StrCat(
      name_, ": the gradient of worker ", request.worker.value(), " at step ",
      request.push_step->value(), " holds a NaN or an infinity; parameters are unchanged. ",
      "Try a smaller learning rate (--learning_rate, or that of the program), and look at the "
      "data"));
}

void Slice::AfterAdvance(Step previous_min_step, ReleasedReplies* released) {
  if (steps_.min_step() == previous_min_step) return;
  ApplyKept();
  ReleaseParked(released);
}

void Slice::ApplyKept() {
  while (const std::optional<Step> step = FirstKept()) {
    if (steps_.min_step() < schedule_->KeptUntil(*step)) break;
    if (IsExactCutPending() && *step >= *cut_step_) Cut();
    schedule_->AppliesWholeStep(*step) ? ApplyMean(*step) : ApplyOne(*step);
  }
  CutIfDue();
}

void Slice::ReleaseParked(ReleasedReplies* released) {
  for (auto& [worker, pull] : parked_.TakeAll()) {
    AnswerOrPark(worker, std::move(pull), released);
  }
}

uint64_t Slice::DivisorOf(std::optional<uint64_t> base_version) const {
  const uint64_t now = version();
  return LearningRateDivisor(update_scale_, steps_.live_count(), now - base_version.value_or(now));
}

void Slice::AnswerOrPark(WorkerId worker, ParkedPull pull, ReleasedReplies* released) {
  if (awaits_initial_ && !steps_.is_live(kFirstWorker)) {
    released->emplace_back(std::move(pull.done),
                           ErrorReply(absl::FailedPreconditionError(absl::StrCat(
                               "worker 0 was lost before it had sent the initial values of ", name_,
                               "; start the job again"))));
    return;
  }
  const PullDecision decision = awaits_initial_ || IsHeldBack(pull.step)
                                    ? PullDecision::kWait
                                    : schedule_->Decide(pull.step, steps_.min_step());
  switch (decision) {
    case PullDecision::kWait:
      return parked_.Park(worker, std::move(pull), released);
    case PullDecision::kTooLate:
      released->emplace_back(
          std::move(pull.done),
          ErrorReply(absl::FailedPreconditionError(absl::StrCat(
              name_, ": pull at step ", pull.step.value(), ", but the updates of step ",
              steps_.min_step().value() - 1, " have been applied; the values are gone"))));
      return;
    case PullDecision::kAnswer:
      released->emplace_back(std::move(pull.done), ReplyWithValues(worker, pull));
      return;
  }
}

ExchangeReply Slice::MakeReply(uint64_t learning_rate_divisor) const {
  ExchangeReply reply;
  reply.learning_rate_divisor = learning_rate_divisor;
  reply.version = version();
  reply.min_step = steps_.min_step();
  reply.cut = own_.cut();
  return reply;
}

void Slice::CutAt(Step step, ReleasedReplies* released) {
  cut_step_ = step;
  cut_.reset();
  own_.GiveUpCut();
  CutIfDue();
  held_from_.reset();
  ReleaseParked(released);
}

bool Slice::IsExactCutPending() const {
  return cut_step_.has_value() && schedule_->AppliesWholeStep(*cut_step_ + -1);
}

void Slice::CutIfDue() {
  if (!cut_step_.has_value() || awaits_initial_) return;
  // Pushes of these steps are applied together with others, or after them.
  if (steps_.min_step() >= schedule_->KeptUntil(*cut_step_ + -1)) Cut();
}

void Slice::Cut() {
  cut_ = std::make_unique<SliceSnapshot>(Snapshot());
  if (IsExactCutPending()) EndAt(*cut_step_, *cut_);
  cut_step_.reset();
  own_.BeginCut(cut_->workers);
}

SliceSnapshot Slice::TakeCut() {
  own_.TakeCut(*cut_);
  return std::move(*std::exchange(cut_, nullptr));
}

SliceSnapshot Slice::Snapshot() const {
  SliceSnapshot snapshot;
  snapshot.version = version();
  snapshot.min_step = steps_.min_step();
  snapshot.largest_step = largest_step_;
  snapshot.schedule = schedule_->source();
  snapshot.workers = steps_.entries();
  snapshot.own_arrays = own_.arrays();
  Save(snapshot);
  return snapshot;
}

absl::Status Slice::Restore(const SliceSnapshot& snapshot) {
  largest_step_ = snapshot.largest_step;
  steps_.Restore(snapshot.workers, snapshot.min_step);
  own_.Restore(snapshot.own);
  return Load(snapshot);
}

void Slice::CancelParked(const absl::Status& status, ReleasedReplies* released) {
  parked_.Cancel(status, released);
}

}  // namespace capstan
