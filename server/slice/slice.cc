#include "server/slice/slice.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

// Sends the initial values.
constexpr WorkerId kFirstWorker(0);

bool HasGradient(PushesOfStep pushes) {
  return std::any_of(pushes.begin(), pushes.end(),
                     [](const CheckedPush* push) { return push->gradient.has_value(); });
}

}  // namespace

Slice::Slice(Options options, uint32_t own_arrays, size_t size)
    : name_(std::move(options.name)),
      update_scale_(options.update_scale),
      check_finite_(options.check_finite && !options.replies_mean),
      replies_mean_(options.replies_mean),
      size_bytes_(size * sizeof(float)),
      non_finite_pushes_(*options.non_finite_pushes),
      steps_until_held_back_(options.steps_until_held_back),
      awaits_initial_(options.awaits_initial),
      schedule_(std::move(options.schedule)),
      parked_(name_),
      receipts_(name_),
      own_(own_arrays, size, options.replies_mean) {}

void Slice::AddWorkers(absl::Span<const WorkerId> workers, ReleasedReplies* released) {
  for (const WorkerId worker : workers) {
    parked_.Refuse(worker, released);
    receipts_.Refuse(worker, released);
    Orphan(worker);
    own_.AddWorker(worker);
    Forget(worker);
  }
  const Step before = steps_.min_step();
  steps_.Add(workers);
  if (changes_.is_on()) changes_.NoteMembers(Now(), workers, /*removed=*/{}, AppliedEntries());
  AfterAdvance(before, released);
}

void Slice::EnterWorker(WorkerId worker, Step first_step, ReleasedReplies* released) {
  const Step before = steps_.min_step();
  steps_.Enter(worker, first_step);
  if (changes_.is_on()) changes_.NoteMembers(Now(), {}, {}, AppliedEntries());
  AfterAdvance(before, released);
}

void Slice::RemoveWorker(WorkerId worker, ReleasedReplies* released) {
  const Step before = steps_.min_step();
  receipts_.Refuse(worker, released);
  Orphan(worker);
  own_.RemoveWorker(worker);
  Forget(worker);
  steps_.Remove(worker);
  if (changes_.is_on()) changes_.NoteMembers(Now(), {}, {worker}, AppliedEntries());
  // Pulls that wait for the worker's initial values get an error.
  if (awaits_initial_ && worker == kFirstWorker) ReleaseParked(released);
  AfterAdvance(before, released);
}

void Slice::SetSchedule(std::shared_ptr<const ConsistencySchedule> schedule,
                        ReleasedReplies* released) {
  schedule_ = std::move(schedule);
  held_from_.reset();
  if (changes_.is_on()) changes_.NoteSchedule(Now(), *schedule_);
  ReleaseParked(released);
}

Step Slice::HoldBack() {
  if (!held_from_.has_value()) {
    const int64_t ahead = 1 + steps_until_held_back_;
    const Step last(std::numeric_limits<int64_t>::max() - ahead);
    held_from_ = std::min(largest_step_, last) + ahead;
  }
  return *held_from_;
}

void Slice::Exchange(ExchangeRequest&& request, ParameterEndpoint::ReplyCallback done,
                     ReleasedReplies* released) {
  const WorkerId worker = request.sender.worker;
  if (const auto* state = std::get_if<WorkerState>(&request.purpose)) {
    released->emplace_back(std::move(done), KeepState(worker, *state));
  } else if (const auto* restored = std::get_if<WorkerStatePull>(&request.purpose)) {
    released->emplace_back(std::move(done), RestoredState(worker, restored->is_program));
  } else if (const auto* table = std::get_if<TableState>(&request.purpose)) {
    released->emplace_back(std::move(done), KeepTableState(worker, *table));
  } else if (const auto* initial = std::get_if<InitialValues>(&request.purpose)) {
    TakeInitialValues(initial->values, std::move(done), released);
  } else if (const auto* optimizer = std::get_if<OptimizerState>(&request.purpose)) {
    released->emplace_back(std::move(done), TakeOptimizerState(*optimizer));
  } else if (const auto* pull = std::get_if<OptimizerStatePull>(&request.purpose)) {
    released->emplace_back(std::move(done), ReadOptimizerState(pull->array));
  } else {
    CheckedStep step;
    absl::Status read = Read(std::move(request), &step);
    if (read.ok()) return ExchangeStep(worker, std::move(step), std::move(done), released);
    released->emplace_back(std::move(done), ErrorReply(std::move(read)));
  }
}

absl::Status Slice::Read(ExchangeRequest&& request, CheckedStep* read) {
  const WorkerId worker = request.sender.worker;
  if (const StepPull* const pull = PullOf(request); pull != nullptr) {
    RETURN_IF_ERROR(CheckPull(Context(), worker, *pull, PushOf(request)));
  }
  if (auto* dense = std::get_if<DenseStep>(&request.purpose)) {
    return ReadDense(worker, std::move(*dense), read);
  }
  return ReadRows(worker, std::move(std::get<RowStep>(request.purpose)), read);
}

absl::Status Slice::ReadDense(WorkerId /*worker*/, DenseStep&& /*step*/,
                              CheckedStep* /*read*/) const {
  return absl::InvalidArgumentError(
      absl::StrCat(name_, ": expected rows by key, because the table is sparse"));
}

absl::Status Slice::ReadRows(WorkerId /*worker*/, RowStep&& /*step*/, CheckedStep* /*read*/) {
  return absl::InvalidArgumentError(
      absl::StrCat(name_, ": got rows by key, but the table is dense"));
}

void Slice::ExchangeStep(WorkerId worker, CheckedStep&& step, ParameterEndpoint::ReplyCallback done,
                         ReleasedReplies* released) {
  uint64_t divisor = 0;
  Step pushed_step;
  if (step.push.has_value()) {
    pushed_step = step.push->step;
    const Step before = steps_.min_step();
    absl::StatusOr<uint64_t> pushed = Push(worker, *std::move(step.push));
    if (!pushed.ok()) {
      released->emplace_back(std::move(done), ErrorReply(std::move(pushed).status()));
      return;
    }
    divisor = *pushed;
    AfterAdvance(before, released);
  }
  if (!step.pull.has_value()) {
    if (!kept_.Has(pushed_step, worker)) {
      released->emplace_back(std::move(done), MakeReply(divisor));
      return;
    }
    // Its worker is to keep it until then.
    receipts_.Park(pushed_step, worker, std::move(done), released);
    return;
  }
  largest_step_ = std::max(largest_step_, step.pull->step);
  step.pull->learning_rate_divisor = divisor;
  step.pull->done = std::move(done);
  AnswerOrPark(worker, *std::move(step.pull), released);
}

ExchangeReply Slice::KeepState(WorkerId worker, const WorkerState& state) {
  const absl::Status kept = own_.Keep(worker, state);
  if (!kept.ok()) return ErrorReply(Annotate(kept, name_));
  return MakeReply(/*learning_rate_divisor=*/0);
}

ExchangeReply Slice::KeepTableState(WorkerId worker, const TableState& state) {
  const absl::Status kept = replies_mean_ ? own_.KeepTable(worker, state)
                                          : absl::InvalidArgumentError(
                                                "got the table's state, but the servers run its "
                                                "optimizer and have it");
  if (!kept.ok()) return ErrorReply(Annotate(kept, name_));
  // An older one may arrive late, or again.
  if (state.cut >= std::exchange(parameters_cut_, std::max(parameters_cut_, state.cut))) {
    SetParameters(state.arrays.Subrange(0, size_bytes_));
  }
  return MakeReply(/*learning_rate_divisor=*/0);
}

ExchangeReply Slice::RestoredState(WorkerId worker, bool is_program) const {
  ExchangeReply reply = MakeReply(/*learning_rate_divisor=*/0);
  reply.values = own_.Restored(worker, is_program);
  return reply;
}

void Slice::TakeInitialValues(const Payload& values, ParameterEndpoint::ReplyCallback done,
                              ReleasedReplies* released) {
  // Otherwise they were sent before, or come from a file.
  const bool is_awaited = awaits_initial_;
  if (absl::Status status = is_awaited ? SetInitialValues(values) : absl::OkStatus();
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

absl::StatusOr<uint64_t> Slice::Push(WorkerId worker, CheckedPush&& push) {
  const Step step = push.step;
  if (steps_.BeginsWith(worker, step)) {
    steps_.EndFirstStep(worker, step);
    v1::ReplicaChange change;
    change.mutable_ended_first_step()->set_worker(worker.value());
    change.mutable_ended_first_step()->set_step(step.value());
    changes_.Note(Now(), std::move(change));
  }
  if (step < steps_.completed(worker)) {
    ++duplicate_pushes_;
    return 0;
  }
  RETURN_IF_ERROR(CheckPush(Context(), worker, push));
  const bool has_gradient = push.gradient.has_value();
  if (has_gradient && check_finite_ && !push.gradient->IsFinite()) return NotFinite(worker, step);
  uint64_t divisor = 0;
  NotePush(worker, step);
  const bool is_kept = IsKept(step);
  if (is_kept) {
    kept_.Add(worker, std::move(push));
  } else if (has_gradient) {
    divisor = DivisorOf(push.base_version);
    Apply(push, divisor);
  }
  largest_step_ = std::max(largest_step_, step);
  steps_.Advance(worker, step);
  own_.NotePush(worker);
  if (!is_kept) changes_.NotePush(Now(), push, divisor);
  return divisor;
}

absl::Status Slice::NotFinite(WorkerId worker, Step step) {
  non_finite_pushes_.Increment(worker);
  return absl::InvalidArgumentError(
      absl::StrCat(name_, ": the gradient of worker ", worker.value(), " at step ", step.value(),
                   " holds a NaN or an infinity; parameters are unchanged"));
}

void Slice::AfterAdvance(Step previous_min_step, ReleasedReplies* released) {
  if (steps_.min_step() == previous_min_step) return;
  ApplyKept(released);
  ReleaseParked(released);
}

void Slice::ApplyKept(ReleasedReplies* released) {
  while (const std::optional<Step> step = kept_.First()) {
    if (steps_.min_step() < schedule_->KeptUntil(*step)) break;
    if (IsExactCutPending() && *step >= *cut_step_) Cut();
    schedule_->AppliesWholeStep(*step) ? ApplyWhole(*step, released) : ApplyOne(*step, released);
  }
  CutIfDue();
}

void Slice::ApplyWhole(Step step, ReleasedReplies* released) {
  KeepValuesOf(step);
  kept_.TakeAll(step, [&](PushesOfStep pushes, const std::shared_ptr<const void>& memory) {
    // All live workers have done the step. If none has a gradient, nothing changes.
    MeanForCopy mean;
    if (changes_.is_on()) mean.pool = changes_.pool();
    if (HasGradient(pushes)) ApplyMean(step, pushes, changes_.is_on() ? &mean : nullptr);
    if (changes_.is_on()) changes_.NoteStep(Now(), step, pushes, std::move(mean), memory);
    for (const CheckedPush* const push : pushes) {
      receipts_.Answer(step, push->worker, MakeReply(/*learning_rate_divisor=*/0), released);
    }
  });
}

void Slice::ApplyOne(Step step, ReleasedReplies* released) {
  kept_.TakeOne(step, [&](const CheckedPush& push, const std::shared_ptr<const void>& memory) {
    const uint64_t divisor = push.gradient.has_value() ? DivisorOf(push.base_version) : 0;
    if (push.gradient.has_value()) Apply(push, divisor);
    changes_.NotePush(Now(), push, divisor, memory);
    receipts_.Answer(step, push.worker, MakeReply(divisor), released);
  });
}

void Slice::ReleaseParked(ReleasedReplies* released) {
  for (auto& [worker, pull] : parked_.TakeAll()) {
    AnswerOrPark(worker, std::move(pull), released);
  }
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
      // A late duplicate of a pull gets no values: by now its worker may have newer ones, at the
      // same place in memory.
      if (steps_.BeginsWith(worker, pull.step)) {
        if (std::optional<ExchangeReply> kept = ReplyWithKept(pull)) {
          released->emplace_back(std::move(pull.done), *std::move(kept));
          return;
        }
      }
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
  cut_ = std::make_unique<SliceSnapshot>(Progress());
  SaveCut(*cut_);
  if (IsExactCutPending()) cut_->EndAt(*cut_step_);
  cut_step_.reset();
  own_.BeginCut(cut_->workers);
  v1::ReplicaChange change;
  change.mutable_cut()->set_number(own_.number());
  changes_.Note(Now(), std::move(change));
}

SliceSnapshot Slice::TakeCut() {
  own_.TakeCut(*cut_);
  return std::move(*std::exchange(cut_, nullptr));
}

SliceSnapshot Slice::Snapshot() const {
  SliceSnapshot snapshot = Progress();
  Save(snapshot);
  return snapshot;
}

SliceSnapshot Slice::Progress() const {
  SliceSnapshot snapshot;
  snapshot.version = version();
  snapshot.min_step = steps_.min_step();
  snapshot.largest_step = largest_step_;
  snapshot.schedule = schedule_->source();
  snapshot.workers = steps_.entries();
  snapshot.own_arrays = own_.arrays();
  kept_.Save(snapshot);
  return snapshot;
}

absl::Status Slice::Restore(const SliceSnapshot& snapshot) {
  largest_step_ = snapshot.largest_step;
  steps_.Restore(snapshot.workers, snapshot.min_step);
  own_.Restore(snapshot);
  RETURN_IF_ERROR(Load(snapshot));
  kept_.Load(snapshot);
  return absl::OkStatus();
}

}  // namespace capstan
