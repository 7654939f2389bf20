#include "worker/program/program_steps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

// After a failed exchange: how long the program's calls wait for the job's own reason.
constexpr absl::Duration kReasonPatience = absl::Seconds(5);

// How often a wait looks whether it has become a long one.
constexpr absl::Duration kLookInterval = absl::Seconds(1);

// What the program hears of it.
absl::Status AsAborted(const absl::Status& status) {
  return status.ok() ? status : absl::AbortedError(status.message());
}

std::string TooManySteps(Step step, int64_t steps) {
  return absl::StrCat(
      "has begun step ", step.value(), ", but another worker has ended after ", steps,
      " steps: give every worker the same number of batches: leave out those ",
      "that only some workers have, or let those with fewer begin again from their first");
}

}  // namespace

ProgramSteps::ProgramSteps(Clock* clock, size_t parts, int64_t steps)
    : clock_(clock), announced_steps_(steps), pushed_(parts), most_steps_(steps) {}

absl::Status ProgramSteps::WaitLocked(absl::Time deadline) {
  if (clock_->WaitUntil(mu_, changed_, deadline)) return absl::OkStatus();
  return absl::DeadlineExceededError("the time limit has passed; call again to go on waiting");
}

absl::Status ProgramSteps::CheckGoesOnLocked() const {
  if (outcome_.has_value()) return *outcome_;
  return came_after_end_ ? failure_ : AsAborted(failure_);
}

absl::Status ProgramSteps::CheckTrainsLocked() const {
  RETURN_IF_ERROR(CheckGoesOnLocked());
  if (!has_started_) return absl::FailedPreconditionError("the training has not begun");
  return absl::OkStatus();
}

absl::Status ProgramSteps::AwaitStart(absl::Duration limit) {
  const absl::Time deadline = clock_->Now() + limit;
  MutexLock lock(&mu_);
  while (!open_.has_value() && !has_run_ && !has_trained_ && !outcome_.has_value()) {
    RETURN_IF_ERROR(WaitLocked(deadline));
  }
  RETURN_IF_ERROR(CheckGoesOnLocked());
  return has_started_ ? absl::OkStatus() : absl::FailedPreconditionError("the job is done");
}

Step ProgramSteps::StepAfter(size_t part) const {
  MutexLock lock(&mu_);
  return next_ + (pushed_[part] ? 1 : 0);
}

void ProgramSteps::EndLease::operator()(ParameterStore* /*store*/) const {
  MutexLock lock(&steps->mu_);
  --steps->store_users_;
  steps->changed_.NotifyAll();
}

ProgramSteps::StoreLease ProgramSteps::LeaseStoreLocked() {
  if (store_ != nullptr) ++store_users_;
  return StoreLease(store_, EndLease{this});
}

absl::StatusOr<ProgramSteps::StoreLease> ProgramSteps::LeaseStore() {
  MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckTrainsLocked());
  return LeaseStoreLocked();
}

absl::Status ProgramSteps::WithoutStore(absl::Time deadline) {
  MutexLock lock(&mu_);
  while (leaves_ && !outcome_.has_value()) RETURN_IF_ERROR(WaitLocked(deadline));
  RETURN_IF_ERROR(CheckGoesOnLocked());
  return absl::FailedPreconditionError("all steps are done");
}

absl::Status ProgramSteps::WaitIn(
    ParameterStore& store, absl::Time deadline, const char* text,
    absl::FunctionRef<absl::StatusOr<bool>(absl::Duration limit)> wait) {
  while (true) {
    const absl::Duration rest = deadline - clock_->Now();
    const absl::StatusOr<bool> is_done = wait(std::min(rest, kLookInterval));
    if (!is_done.ok()) return Lose(is_done.status());
    if (*is_done) return absl::OkStatus();
    on_long_wait_(store);
    if (rest <= kLookInterval) return absl::DeadlineExceededError(text);
  }
}

absl::Status ProgramSteps::TakeStoreBackLocked() {
  store_ = nullptr;
  while (store_users_ > 0) RETURN_IF_ERROR(WaitLocked(absl::InfiniteFuture()));
  return absl::OkStatus();
}

absl::Status ProgramSteps::LoseAs(const absl::Status& status, bool came_after_end) {
  const absl::Time due = clock_->Now() + kReasonPatience;
  {
    MutexLock lock(&mu_);
    if (reason_due_ == absl::InfinitePast()) reason_due_ = due;
  }
  FailAs(status, came_after_end);
  return came_after_end ? status : AsAborted(status);
}

absl::Status ProgramSteps::LoseBeyondOthers(absl::string_view what, bool came_after_end) {
  if (!came_after_end) return Lose(absl::FailedPreconditionError(what));
  constexpr char kText[] = "has taken a lost worker's place after the others' last step";
  return LoseAs(absl::CancelledError(kText), came_after_end);
}

absl::Status ProgramSteps::Explain(absl::Status status, absl::Time deadline) {
  if (!absl::IsAborted(status) && !absl::IsCancelled(status)) return status;
  MutexLock lock(&mu_);
  const absl::Time end = std::min(deadline, reason_due_);
  while (!outcome_.has_value() && clock_->Now() < end) {
    clock_->WaitUntil(mu_, changed_, end);
  }
  if (outcome_.has_value()) return outcome_->ok() ? status : *outcome_;
  if (end == reason_due_) return status;
  return absl::DeadlineExceededError("the worker has failed; call again to hear why");
}

absl::StatusOr<Step> ProgramSteps::AwaitOpenStep(absl::Time deadline) {
  std::string beyond;
  bool came_after_end;
  {
    MutexLock lock(&mu_);
    RETURN_IF_ERROR(CheckTrainsLocked());
    while (!open_.has_value() && CheckGoesOnLocked().ok() && !outcome_.has_value() &&
           !HasDoneAllStepsLocked()) {
      RETURN_IF_ERROR(WaitLocked(deadline));
    }
    RETURN_IF_ERROR(CheckGoesOnLocked());
    came_after_end = CameAfterEndLocked() && !ends_;
    if (!open_.has_value() && !came_after_end) {
      return absl::FailedPreconditionError(
          absl::StrCat("all ", next_.value(),
                       " steps are done, which is the job's number of them, or the program's; end "
                       "the loop there, and finish"));
    }
    if (open_.has_value() && (most_steps_ == 0 || *open_ < Step(most_steps_))) return *open_;
    beyond = TooManySteps(next_, most_steps_);
  }
  return LoseBeyondOthers(beyond, came_after_end);
}

absl::StatusOr<std::optional<ProgramSteps::TakenPush>> ProgramSteps::TakePush(
    size_t part, const std::string& name) {
  MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckGoesOnLocked());
  if (!open_.has_value()) return std::nullopt;  // The worker has been asked to leave meanwhile.
  if (pushed_[part]) {
    return absl::FailedPreconditionError(absl::StrCat(
        name, " has been pushed in step ", next_.value(), " before; end the step first"));
  }
  pushed_[part] = true;
  return TakenPush{*open_, LeaseStoreLocked()};
}

void ProgramSteps::ReturnPush(size_t part) {
  MutexLock lock(&mu_);
  pushed_[part] = false;
  changed_.NotifyAll();
}

absl::Status ProgramSteps::BeginEndOfStep(absl::Time deadline) {
  MutexLock lock(&mu_);
  while (is_ending_step_) RETURN_IF_ERROR(WaitLocked(deadline));
  is_ending_step_ = true;
  return absl::OkStatus();
}

void ProgramSteps::FinishEndOfStep() {
  MutexLock lock(&mu_);
  is_ending_step_ = false;
  changed_.NotifyAll();
}

absl::Status ProgramSteps::CloseStep(double loss, size_t samples) {
  MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckGoesOnLocked());
  result_.loss_sum = loss * static_cast<double>(samples);
  samples_ = samples;
  open_.reset();
  has_begun_ = false;
  next_ = next_ + 1;
  pushed_.assign(pushed_.size(), false);
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status ProgramSteps::CheckIsWorker() const {
  if (!is_part_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this process is a part of a worker (capstan_connect_options.part): operations of all "
      "workers, "
      "the worker's state and leaving are for the process that is the worker");
}

bool ProgramSteps::IsWithinStep() const {
  MutexLock lock(&mu_);
  return has_begun_ || may_end_early_ || (most_steps_ > 0 && next_ >= Step(most_steps_));
}

void ProgramSteps::AgreeToEnd() {
  MutexLock lock(&mu_);
  may_end_early_ = true;
}

absl::Status ProgramSteps::End() {
  MutexLock lock(&mu_);
  if (ends_) return absl::OkStatus();
  RETURN_IF_ERROR(CheckGoesOnLocked());
  if (HasPushedLocked()) {
    return absl::FailedPreconditionError(
        absl::StrCat("step ", next_.value(), " is under way; end it first"));
  }
  if (next_ == Step(0)) {
    return absl::FailedPreconditionError("has done no step; give every worker at least one batch");
  }
  // A worker that took another one's place may have come after an early end of the others.
  if (next_ < Step(std::min(announced_steps_, most_steps_)) && !may_end_early_) {
    return absl::FailedPreconditionError(
        absl::StrCat("has done ", next_.value(), " of the ", announced_steps_,
                     " steps that it had announced; do the rest, or let all workers agree to end "
                     "earlier: capstan_stop, in Python stop"));
  }
  ends_ = true;
  changed_.NotifyAll();
  return absl::OkStatus();
}

bool ProgramSteps::is_leaving() const {
  MutexLock lock(&mu_);
  return leaves_ && !HasPushedLocked();
}

absl::StatusOr<bool> ProgramSteps::AwaitEvaluation(absl::Duration limit) {
  const absl::Time deadline = clock_->Now() + limit;
  MutexLock lock(&mu_);
  if (!ends_) return absl::FailedPreconditionError("the steps have not ended");
  while (evaluation_ == Evaluation::kNone && !outcome_.has_value()) {
    RETURN_IF_ERROR(WaitLocked(deadline));
  }
  if (!outcome_.has_value()) return evaluation_ == Evaluation::kWanted;
  RETURN_IF_ERROR(*outcome_);
  return false;
}

absl::Status ProgramSteps::Report(const v1::ReportResultRequest& result, absl::Duration limit) {
  const absl::Time deadline = clock_->Now() + limit;
  MutexLock lock(&mu_);
  if (evaluation_ == Evaluation::kNone) {
    return absl::FailedPreconditionError(
        "expected capstan_finish before, and that this worker evaluates");
  }
  if (evaluation_ == Evaluation::kWanted) {
    report_ = result;
    evaluation_ = Evaluation::kReported;
    changed_.NotifyAll();
  }
  while (!outcome_.has_value()) RETURN_IF_ERROR(WaitLocked(deadline));
  return *outcome_;
}

void ProgramSteps::ReportNothing() {
  MutexLock lock(&mu_);
  reports_nothing_ = true;
  changed_.NotifyAll();
}

void ProgramSteps::FailAs(absl::Status reason, bool came_after_end) {
  StoreLease store;
  {
    MutexLock lock(&mu_);
    if (outcome_.has_value() || !failure_.ok()) return;
    failure_ = reason;
    came_after_end_ = came_after_end;
    changed_.NotifyAll();
    // Taken at once: the loop may end now, and calls of the program may wait in the store.
    store = LeaseStoreLocked();
  }
  if (store != nullptr) store->Fail(reason);
}

void ProgramSteps::Leave() {
  MutexLock lock(&mu_);
  leaves_ = true;
  changed_.NotifyAll();
}

void ProgramSteps::SetOutcome(absl::Status outcome) {
  MutexLock lock(&mu_);
  outcome_ = AsAborted(outcome);
  // A worker that fails before its first step ends as if it had been asked to.
  if (absl::IsCancelled(outcome)) {
    outcome_ = failure_.ok() || came_after_end_ ? outcome : AsAborted(failure_);
  }
  changed_.NotifyAll();
}

bool ProgramSteps::AwaitOutcome(absl::Duration limit) {
  const absl::Time deadline = clock_->Now() + limit;
  MutexLock lock(&mu_);
  while (!outcome_.has_value()) {
    if (!WaitLocked(deadline).ok()) return outcome_.has_value();
  }
  return true;
}

void ProgramSteps::BeginTraining(Step first_step, ParameterStore& store) {
  {
    MutexLock lock(&mu_);
    store_ = &store;
    next_ = first_ = first_step;
    pushed_.assign(pushed_.size(), false);
    has_started_ = true;
  }
  CheckIsNotBeyond();  // LimitSteps may have come before.
}

absl::Status ProgramSteps::Run(Step step) {
  MutexLock lock(&mu_);
  next_ = step;
  open_ = step;
  changed_.NotifyAll();
  while (open_.has_value() && failure_.ok() && !IsUnwantedLocked()) {
    RETURN_IF_ERROR(WaitLocked(absl::InfiniteFuture()));
  }
  has_ended_ = open_.has_value();
  open_.reset();
  return failure_;
}

void ProgramSteps::LimitSteps(int64_t steps) {
  {
    MutexLock lock(&mu_);
    most_steps_ = steps;
  }
  CheckIsNotBeyond();
}

void ProgramSteps::CheckIsNotBeyond() {
  int64_t steps;
  bool came_after_end;
  {
    MutexLock lock(&mu_);
    if (!IsBeyondOthersLocked()) return;
    steps = most_steps_;
    came_after_end = CameAfterEndLocked();
  }
  LoseBeyondOthers(TooManySteps(Step(steps), steps), came_after_end).IgnoreError();
}

absl::Status ProgramSteps::EndTraining() {
  MutexLock lock(&mu_);
  RETURN_IF_ERROR(TakeStoreBackLocked());
  has_trained_ = true;
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status ProgramSteps::AwaitEnd(bool owes_state) {
  MutexLock lock(&mu_);
  has_run_ = true;
  changed_.NotifyAll();
  while (!ends_ && !(owes_state ? reports_nothing_ : leaves_) && failure_.ok()) {
    RETURN_IF_ERROR(WaitLocked(absl::InfiniteFuture()));
  }
  return failure_;
}

absl::StatusOr<v1::ReportResultRequest> ProgramSteps::AwaitReport(Step steps,
                                                                  ParameterStore& store) {
  MutexLock lock(&mu_);
  evaluation_ = Evaluation::kWanted;
  // The program may pull rows.
  store_ = &store;
  next_ = steps;
  changed_.NotifyAll();
  while (evaluation_ != Evaluation::kReported && failure_.ok() && !reports_nothing_) {
    RETURN_IF_ERROR(WaitLocked(absl::InfiniteFuture()));
  }
  RETURN_IF_ERROR(TakeStoreBackLocked());
  RETURN_IF_ERROR(failure_);
  if (evaluation_ != Evaluation::kReported) {
    report_.set_has_no_accuracy(true);
    report_.set_has_no_loss(true);
  }
  return report_;
}

}  // namespace capstan
