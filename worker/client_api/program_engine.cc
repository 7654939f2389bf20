#include "worker/client_api/program_engine.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

// After a failed exchange: how long the program's calls wait for the job's own reason.
constexpr absl::Duration kReasonPatience = absl::Seconds(5);

int LayerCount(const std::vector<v1::TableSpec>& tables) {
  int count = 0;
  for (const v1::TableSpec& table : tables) {
    count = std::max(count, static_cast<int>(table.layer()) + 1);
  }
  return count;
}

// What the program hears of it.
absl::Status AsAborted(const absl::Status& status) {
  return status.ok() ? status : absl::AbortedError(status.message());
}

absl::Status TooManySteps(Step step, int64_t steps) {
  return absl::FailedPreconditionError(
      absl::StrCat("has begun step ", step.value(), ", but another worker has ended after ", steps,
                   " steps: give every worker the same number of batches: leave out those that "
                   "only some workers "
                   "have, or let workers with fewer begin again from their first"));
}

}  // namespace

ProgramEngine::ProgramEngine(Options options)
    : options_(std::move(options)),
      layer_count_(LayerCount(options_.tables)),
      most_steps_(options_.steps) {}

absl::Status ProgramEngine::WaitLocked(absl::Time deadline) {
  if (options_.clock->WaitUntil(mu_, changed_, deadline)) return absl::OkStatus();
  return absl::DeadlineExceededError("the time limit has passed; call again to go on waiting");
}

absl::Status ProgramEngine::CheckGoesOnLocked() const {
  return outcome_.has_value() ? *outcome_ : AsAborted(failure_);
}

absl::Status ProgramEngine::CheckTrainsLocked() const {
  RETURN_IF_ERROR(CheckGoesOnLocked());
  if (!has_started_) return absl::FailedPreconditionError("the training has not begun");
  return absl::OkStatus();
}

bool ProgramEngine::HasPushedLocked() const {
  return std::find(pushed_.begin(), pushed_.end(), true) != pushed_.end();
}

bool ProgramEngine::HasDoneAllStepsLocked() const {
  const bool are_steps_over = ends_ || (most_steps_ > 0 && next_ >= Step(most_steps_));
  return has_trained_ && !leaves_ && are_steps_over;
}

bool ProgramEngine::IsBeyondOthersLocked() const {
  if (most_steps_ == 0) return false;
  return next_ > Step(most_steps_) || (next_ == Step(most_steps_) && HasPushedLocked());
}

absl::Status ProgramEngine::CheckLayer(int layer) const {
  if (layer >= 0 && layer < layer_count_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("layer: expected 0 to ", layer_count_ - 1, ", got ", layer));
}

absl::Status ProgramEngine::AwaitStart(absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
  MutexLock lock(&mu_);
  while (!open_.has_value() && !has_trained_ && !outcome_.has_value()) {
    RETURN_IF_ERROR(WaitLocked(deadline));
  }
  RETURN_IF_ERROR(CheckGoesOnLocked());
  return has_started_ ? absl::OkStatus() : absl::FailedPreconditionError("the job is done");
}

absl::Span<const absl::Span<const float>> ProgramEngine::values() const {
  MutexLock lock(&mu_);
  return values_;
}

absl::Span<const absl::Span<float>> ProgramEngine::gradients() const {
  MutexLock lock(&mu_);
  return gradients_;
}

Step ProgramEngine::step() const {
  MutexLock lock(&mu_);
  return next_;
}

void ProgramEngine::EndLease::operator()(ParameterStore* /*store*/) const {
  MutexLock lock(&engine->mu_);
  --engine->store_users_;
  engine->changed_.NotifyAll();
}

ProgramEngine::StoreLease ProgramEngine::LeaseStoreLocked() {
  if (store_ != nullptr) ++store_users_;
  return StoreLease(store_, EndLease{this});
}

absl::StatusOr<ProgramEngine::StoreLease> ProgramEngine::LeaseStore() {
  MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckTrainsLocked());
  return LeaseStoreLocked();
}

absl::Status ProgramEngine::Lose(const absl::Status& status) {
  const absl::Time due = options_.clock->Now() + kReasonPatience;
  {
    MutexLock lock(&mu_);
    if (reason_due_ == absl::InfinitePast()) reason_due_ = due;
  }
  Fail(status);
  return AsAborted(status);
}

absl::Status ProgramEngine::Explain(absl::Status status, absl::Time deadline) {
  if (!absl::IsAborted(status)) return status;
  MutexLock lock(&mu_);
  const absl::Time end = std::min(deadline, reason_due_);
  while (!outcome_.has_value() && options_.clock->Now() < end) {
    options_.clock->WaitUntil(mu_, changed_, end);
  }
  if (outcome_.has_value()) return outcome_->ok() ? status : *outcome_;
  if (end == reason_due_) return status;
  return absl::DeadlineExceededError("the worker has failed; call again to hear why");
}

absl::Status ProgramEngine::Wait(int layer, absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
  if (layer >= 0) return Explain(WaitUntil(layer, deadline), deadline);
  for (int one = 0; one < layer_count_; ++one) {
    RETURN_IF_ERROR(Explain(WaitUntil(one, deadline), deadline));
  }
  return absl::OkStatus();
}

absl::Status ProgramEngine::WaitUntil(int layer, absl::Time deadline) {
  RETURN_IF_ERROR(CheckLayer(layer));
  ASSIGN_OR_RETURN(const StoreLease store, LeaseStore());
  if (store == nullptr) return absl::OkStatus();  // All steps are done, and answered.
  const absl::StatusOr<bool> has_arrived =
      store->WaitForLayerFor(layer, deadline - options_.clock->Now());
  if (!has_arrived.ok()) return Lose(has_arrived.status());
  return *has_arrived ? absl::OkStatus() : absl::DeadlineExceededError("values are on their way");
}

absl::StatusOr<Step> ProgramEngine::AwaitOpenStep(absl::Time deadline) {
  absl::Status beyond;
  {
    MutexLock lock(&mu_);
    RETURN_IF_ERROR(CheckTrainsLocked());
    while (!open_.has_value() && CheckGoesOnLocked().ok() && !outcome_.has_value() &&
           !HasDoneAllStepsLocked()) {
      RETURN_IF_ERROR(WaitLocked(deadline));
    }
    RETURN_IF_ERROR(CheckGoesOnLocked());
    if (!open_.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("all ", next_.value(),
                       " steps are done, which is the job's number of them, or the program's; end "
                       "the loop there, and finish"));
    }
    if (most_steps_ == 0 || *open_ < Step(most_steps_)) return *open_;
    beyond = TooManySteps(*open_, most_steps_);
  }
  return Lose(beyond);
}

bool ProgramEngine::IsPushed(int layer) const {
  MutexLock lock(&mu_);
  return pushed_[layer];
}

absl::Status ProgramEngine::Push(int layer, absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
  return Explain(PushUntil(layer, /*has_gradient=*/true, deadline), deadline);
}

absl::Status ProgramEngine::PushUntil(int layer, bool has_gradient, absl::Time deadline) {
  RETURN_IF_ERROR(WaitUntil(layer, deadline));
  bool is_pushed = false;
  while (!is_pushed) {
    RETURN_IF_ERROR(AwaitOpenStep(deadline).status());
    ASSIGN_OR_RETURN(is_pushed, PushNow(layer, has_gradient));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ProgramEngine::PushNow(int layer, bool has_gradient) {
  StoreLease store;
  Step step;
  {
    MutexLock lock(&mu_);
    ASSIGN_OR_RETURN(const bool is_taken, TakePushLocked(layer, absl::StrCat("layer ", layer)));
    if (!is_taken) return false;
    step = *open_;
    store = LeaseStoreLocked();
  }
  // After an exception nobody can complete the push.
  absl::Cleanup fail = [this] { Fail(half_sent_); };
  if (has_gradient) {
    store->PushPull(layer, step);
  } else {
    store->PushNothing(layer, step);
  }
  std::move(fail).Cancel();
  return true;
}

absl::StatusOr<bool> ProgramEngine::TakePushLocked(size_t index, const std::string& name) {
  RETURN_IF_ERROR(CheckGoesOnLocked());
  if (!open_.has_value()) return false;  // The worker has been asked to leave meanwhile.
  if (pushed_[index]) {
    return absl::FailedPreconditionError(absl::StrCat(
        name, " has been pushed in step ", next_.value(), " before; end the step first"));
  }
  pushed_[index] = true;
  return true;
}

absl::Status ProgramEngine::CheckSparse(TableId table) const {
  if (table.value() < options_.tables.size() && IsSparse(table.value())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("table: expected a sparse one, got ", table.value()));
}

absl::StatusOr<size_t> ProgramEngine::DimOf(TableId table) const {
  RETURN_IF_ERROR(CheckSparse(table));
  return options_.tables[table.value()].sparse().dim();
}

absl::Status ProgramEngine::UseRows(TableId table, absl::Time deadline,
                                    absl::FunctionRef<absl::Status(RowStore& rows)> use) {
  RETURN_IF_ERROR(CheckSparse(table));
  ASSIGN_OR_RETURN(const StoreLease store, LeaseStore());
  if (store == nullptr) return absl::FailedPreconditionError("all steps are done");
  RowStore& rows = *store->rows();
  const absl::StatusOr<bool> is_free = rows.WaitFor(table, deadline - options_.clock->Now());
  if (!is_free.ok()) return Lose(is_free.status());
  if (!*is_free) return absl::DeadlineExceededError("rows are on their way");
  // An exception may have left exchanges that nobody sends any more.
  absl::Cleanup fail = [&] {
    if (!rows.WaitFor(table, absl::ZeroDuration()).value_or(true)) Fail(half_sent_);
  };
  absl::Status status = use(rows);
  std::move(fail).Cancel();
  return status;
}

absl::Status ProgramEngine::PullRows(TableId table, absl::Span<const uint64_t> keys,
                                     absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
  const auto pull = [&](RowStore& rows) {
    Step step;
    {
      MutexLock lock(&mu_);
      // After the step's push, the values of this step may be gone.
      step = next_ + (pushed_[layer_count_ + table.value()] ? 1 : 0);
    }
    return rows.Pull(table, keys, step);
  };
  return Explain(UseRows(table, deadline, pull), deadline);
}

absl::Status ProgramEngine::ReadRows(TableId table, absl::Span<float> rows, absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
  const auto read = [&](RowStore& store) {
    const size_t expected = store.pulled_keys(table) * store.dim(table);
    if (rows.size() != expected) {
      return absl::InvalidArgumentError(absl::StrCat(
          "count: expected ", expected, " values of the rows that were pulled, got ", rows.size()));
    }
    store.ReadRows(table, rows);
    return absl::OkStatus();
  };
  return Explain(UseRows(table, deadline, read), deadline);
}

absl::Status ProgramEngine::PushRows(TableId table, absl::Span<const uint64_t> keys,
                                     absl::Span<const float> gradients,
                                     absl::Span<const uint64_t> next_keys, absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
  return Explain(PushRowsUntil(table, keys, gradients, next_keys, deadline), deadline);
}

absl::Status ProgramEngine::PushRowsUntil(TableId table, absl::Span<const uint64_t> keys,
                                          absl::Span<const float> gradients,
                                          absl::Span<const uint64_t> next_keys,
                                          absl::Time deadline) {
  bool is_pushed = false;
  while (!is_pushed) {
    RETURN_IF_ERROR(UseRows(table, deadline, [](RowStore&) { return absl::OkStatus(); }));
    RETURN_IF_ERROR(AwaitOpenStep(deadline).status());
    RETURN_IF_ERROR(UseRows(table, deadline, [&](RowStore& rows) -> absl::Status {
      Step step;
      {
        MutexLock lock(&mu_);
        ASSIGN_OR_RETURN(
            is_pushed,
            TakePushLocked(layer_count_ + table.value(),
                           absl::StrCat("table ", options_.tables[table.value()].name())));
        step = next_;
      }
      if (!is_pushed) return absl::OkStatus();
      auto not_sent = absl::MakeCleanup([this, table] {
        MutexLock lock(&mu_);
        pushed_[layer_count_ + table.value()] = false;
        changed_.NotifyAll();
      });
      RETURN_IF_ERROR(rows.Push(table, keys, gradients, step, next_keys));
      std::move(not_sent).Cancel();
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

absl::Status ProgramEngine::SetLearningRate(std::optional<TableId> table, double learning_rate) {
  if (table.has_value() && table->value() >= options_.tables.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table: expected one below ", options_.tables.size(), ", got ", table->value()));
  }
  ASSIGN_OR_RETURN(const StoreLease store, LeaseStore());
  if (store == nullptr) return absl::OkStatus();  // No push will come.
  for (uint32_t id = 0; id < options_.tables.size(); ++id) {
    if (!table.has_value() || id == table->value()) {
      store->SetLearningRate(TableId(id), learning_rate);
    }
  }
  return absl::OkStatus();
}

absl::Status ProgramEngine::EndStep(double loss, size_t samples, absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
  {
    MutexLock lock(&mu_);
    while (is_ending_step_) RETURN_IF_ERROR(WaitLocked(deadline));
    is_ending_step_ = true;
  }
  const absl::Cleanup end = [this] {
    MutexLock lock(&mu_);
    is_ending_step_ = false;
    changed_.NotifyAll();
  };
  return Explain(EndStepUntil(loss, samples, deadline), deadline);
}

absl::Status ProgramEngine::EndStepUntil(double loss, size_t samples, absl::Time deadline) {
  RETURN_IF_ERROR(AwaitOpenStep(deadline).status());
  for (int layer = layer_count_ - 1; layer >= 0; --layer) {
    if (IsPushed(layer)) continue;
    RETURN_IF_ERROR(PushUntil(layer, /*has_gradient=*/false, deadline));
  }
  for (uint32_t table = 0; table < options_.tables.size(); ++table) {
    if (!IsSparse(table) || IsPushed(layer_count_ + static_cast<int>(table))) continue;
    RETURN_IF_ERROR(PushRowsUntil(TableId(table), {}, {}, {}, deadline));
  }
  MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckGoesOnLocked());
  result_.loss_sum = loss * static_cast<double>(samples);
  samples_ = samples;
  open_.reset();
  next_ = next_ + 1;
  pushed_.assign(layer_count_ + options_.tables.size(), false);
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status ProgramEngine::End() {
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
  if (next_ < Step(options_.steps)) {
    return absl::FailedPreconditionError(absl::StrCat("has done ", next_.value(), " of the ",
                                                      options_.steps,
                                                      " steps that it had announced; do the rest"));
  }
  ends_ = true;
  changed_.NotifyAll();
  return absl::OkStatus();
}

bool ProgramEngine::has_started() const {
  MutexLock lock(&mu_);
  return has_started_;
}

bool ProgramEngine::is_over() const {
  MutexLock lock(&mu_);
  return outcome_.has_value();
}

bool ProgramEngine::is_leaving() const {
  MutexLock lock(&mu_);
  return leaves_ && !HasPushedLocked();
}

bool ProgramEngine::has_ended_steps() const {
  MutexLock lock(&mu_);
  return ends_;
}

absl::StatusOr<bool> ProgramEngine::AwaitEvaluation(absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
  MutexLock lock(&mu_);
  if (!ends_) return absl::FailedPreconditionError("the steps have not ended");
  while (evaluation_ == Evaluation::kNone && !outcome_.has_value()) {
    RETURN_IF_ERROR(WaitLocked(deadline));
  }
  if (!outcome_.has_value()) return evaluation_ == Evaluation::kWanted;
  RETURN_IF_ERROR(*outcome_);
  return false;
}

absl::Status ProgramEngine::Report(const v1::ReportResultRequest& result, absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
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

void ProgramEngine::ReportNothing() {
  MutexLock lock(&mu_);
  reports_nothing_ = true;
  changed_.NotifyAll();
}

void ProgramEngine::Fail(absl::Status reason) {
  StoreLease store;
  {
    MutexLock lock(&mu_);
    if (outcome_.has_value() || !failure_.ok()) return;
    failure_ = reason;
    changed_.NotifyAll();
    // Taken at once: the loop may end now, and calls of the program may wait in the store.
    store = LeaseStoreLocked();
  }
  if (store != nullptr) store->Fail(std::move(reason));
}

void ProgramEngine::Leave() {
  MutexLock lock(&mu_);
  leaves_ = true;
  changed_.NotifyAll();
}

void ProgramEngine::SetOutcome(absl::Status outcome) {
  MutexLock lock(&mu_);
  outcome_ = AsAborted(outcome);
  // A worker that fails before its first step ends as if it had been asked to.
  if (absl::IsCancelled(outcome)) outcome_ = failure_.ok() ? outcome : AsAborted(failure_);
  changed_.NotifyAll();
}

bool ProgramEngine::AwaitOutcome(absl::Duration limit) {
  const absl::Time deadline = options_.clock->Now() + limit;
  MutexLock lock(&mu_);
  while (!outcome_.has_value()) {
    if (!WaitLocked(deadline).ok()) return outcome_.has_value();
  }
  return true;
}

void ProgramEngine::BeginTraining(Step first_step, bool sets_initial_values,
                                  ParameterStore& store) {
  {
    MutexLock lock(&mu_);
    memory_ = store.memory();
    values_.assign(store.values().begin(), store.values().end());
    gradients_.assign(store.gradients().begin(), store.gradients().end());
    store_ = &store;
    next_ = first_step;
    pushed_.assign(layer_count_ + options_.tables.size(), false);
    has_started_ = true;
  }
  for (uint32_t id = 0; sets_initial_values && id < options_.tables.size(); ++id) {
    if (!options_.tables[id].initial_from_worker()) continue;
    if (options_.initial[id].empty()) {
      return Fail(absl::InvalidArgumentError(absl::StrCat("expected initial values of table ",
                                                          options_.tables[id].name(),
                                                          ", got none; worker 0 gives them")));
    }
    const absl::Span<float> values = store.InitialValuesOf(TableId(id));
    std::copy(options_.initial[id].begin(), options_.initial[id].end(), values.begin());
    store.PushInitial(TableId(id));
  }
}

absl::Status ProgramEngine::LoadBatch(const Dataset& /*dataset*/,
                                      absl::Span<const uint32_t> /*samples*/) {
  return absl::OkStatus();  // The program has its own.
}

absl::Status ProgramEngine::RunStep(Step step, ParameterStore& /*store*/) {
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

absl::StatusOr<BatchResult> ProgramEngine::Result() {
  MutexLock lock(&mu_);
  return result_;
}

void ProgramEngine::LimitSteps(int64_t steps) {
  bool is_beyond;
  {
    MutexLock lock(&mu_);
    most_steps_ = steps;
    is_beyond = IsBeyondOthersLocked();
  }
  if (is_beyond) Fail(TooManySteps(Step(steps), steps));
}

bool ProgramEngine::has_ended() const {
  MutexLock lock(&mu_);
  return has_ended_;
}

std::optional<size_t> ProgramEngine::step_samples() const {
  MutexLock lock(&mu_);
  return samples_;
}

absl::Status ProgramEngine::Finish() {
  MutexLock lock(&mu_);
  store_ = nullptr;
  while (store_users_ > 0) RETURN_IF_ERROR(WaitLocked(absl::InfiniteFuture()));
  has_trained_ = true;
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status ProgramEngine::Evaluate(Step steps, ParameterStore& store,
                                     v1::ReportResultRequest& result) {
  {
    MutexLock lock(&mu_);
    while (!ends_ && failure_.ok()) RETURN_IF_ERROR(WaitLocked(absl::InfiniteFuture()));
    RETURN_IF_ERROR(failure_);
  }
  store.PullAllExactly(steps);
  RETURN_IF_ERROR(store.WaitForAll());
  if (store.rows() != nullptr) store.rows()->PullExactly();
  MutexLock lock(&mu_);
  evaluation_ = Evaluation::kWanted;
  // The program may pull rows.
  store_ = &store;
  next_ = steps;
  changed_.NotifyAll();
  while (evaluation_ != Evaluation::kReported && failure_.ok() && !reports_nothing_) {
    RETURN_IF_ERROR(WaitLocked(absl::InfiniteFuture()));
  }
  store_ = nullptr;
  while (store_users_ > 0) RETURN_IF_ERROR(WaitLocked(absl::InfiniteFuture()));
  RETURN_IF_ERROR(failure_);
  if (evaluation_ != Evaluation::kReported) {
    report_.set_has_no_accuracy(true);
    report_.set_has_no_loss(true);
  }
  report_.set_worker(result.worker());
  report_.set_incarnation(result.incarnation());
  result = report_;
  return absl::OkStatus();
}

}  // namespace capstan
