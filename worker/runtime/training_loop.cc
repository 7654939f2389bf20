#include "worker/runtime/training_loop.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/trace/tracer.h"
#include "worker/engine/layer_trace.h"
#include "worker/runtime/schedule_follower.h"

namespace capstan {

TrainingLoop::TrainingLoop(const Options& options)
    : options_(options),
      track_(options.tracer == nullptr ? 0 : options.tracer->Track(kTrainingTrack)),
      steps_done_(options.first_step.value()),
      steps_total_(options.steps) {}

absl::Status TrainingLoop::Run() {
  const absl::Status status = RunSteps();
  // Also after an error: the caller may destroy the store after Run.
  const absl::Status finished = options_.engine->Finish();
  return status.ok() ? finished : status;
}

absl::Status TrainingLoop::RunSteps() {
  {
    MutexLock lock(&mu_);
    started_ = latest_ = options_.clock->Now();
  }
  if (options_.is_restored) {
    // An answer with values may ask for the own state, so it must be there before.
    options_.store->PullOwnState();
    RETURN_IF_ERROR(options_.store->WaitForAll());
  }
  options_.engine->BeginTraining(
      options_.first_step,
      /*sets_initial_values=*/options_.worker == WorkerId(0) && !options_.is_restored,
      *options_.store);
  // The pull replaces initial values, which must have left by then.
  RETURN_IF_ERROR(options_.store->WaitForAll());
  options_.store->PullAll(options_.first_step);
  if (LoadsInSteps()) {
    options_.engine->TakeBatchesFrom([this](int64_t number) { return LoadBatchOf(Step(number)); });
  }
  RETURN_IF_ERROR(LoadBatch(options_.first_step));
  Step step = options_.first_step;
  while (HasStep(step) && !options_.must_stop()) {
    RETURN_IF_ERROR(RunStep(step));
    if (options_.engine->has_ended()) break;
    step = step + 1;
  }
  RETURN_IF_ERROR(options_.store->WaitForAll());
  // A worker that has done all its steps stays until the job's end.
  const bool stops = HasStep(step) && options_.must_stop();
  if (stops) RETURN_IF_ERROR(options_.engine->EndBefore(step, *options_.store));
  // What a program does afterwards takes no time of its steps.
  const absl::Time ended = options_.clock->Now();
  if (!options_.engine->has_ended() && !stops) {
    RETURN_IF_ERROR(options_.engine->AwaitEnd(*options_.store));
    RETURN_IF_ERROR(options_.store->WaitForAll());
  }
  if (options_.engine->has_ended() && !stops) {
    options_.store->PushLastOwnState();
    RETURN_IF_ERROR(options_.store->WaitForAll());
    RETURN_IF_ERROR(EndAt(step.value()));
  }
  RecordStepsDone(step.value(), ended);
  return absl::OkStatus();
}

absl::Status TrainingLoop::EndAt(int64_t steps) {
  if (steps == 0) {
    return absl::FailedPreconditionError(
        "has ended without a step: give every worker at least one batch");
  }
  MutexLock lock(&mu_);
  ends_early_ = steps < steps_total_;
  steps_total_ = steps;
  return absl::OkStatus();
}

bool TrainingLoop::HasStep(Step step) const {
  return options_.steps == 0 || step < Step(options_.steps);
}

bool TrainingLoop::has_finished() const {
  MutexLock lock(&mu_);
  return has_recorded_ && steps_total_ > 0 && steps_done_ == steps_total_;
}

int64_t TrainingLoop::steps_done() const {
  MutexLock lock(&mu_);
  return steps_done_;
}

bool TrainingLoop::LoadsInSteps() const {
  return options_.sampler != nullptr && options_.engine->local_steps() != nullptr;
}

absl::Status TrainingLoop::LoadBatch(Step step) {
  if (options_.sampler == nullptr || LoadsInSteps() || !HasStep(step)) return absl::OkStatus();
  return LoadBatchOf(step);
}

absl::Status TrainingLoop::LoadBatchOf(Step step) {
  const absl::Span<const uint32_t> samples = options_.sampler->Indices(options_.worker, step);
  batch_size_ = samples.size();
  return options_.engine->LoadBatch(*options_.train, samples);
}

absl::Status TrainingLoop::RunStep(Step step) {
  const TraceSpan span(options_.tracer, track_, "step", {{"step", step.value()}});
  if (options_.begin_step) options_.begin_step(step);
  if (options_.schedule != nullptr) options_.schedule->BeginStep(step);
  RETURN_IF_ERROR(options_.engine->RunStep(step, *options_.store));
  if (options_.engine->has_ended()) return absl::OkStatus();
  // The forward pass has waited for every layer: the step before has all its replies.
  RecordStepsDone(step.value(), options_.clock->Now());
  const size_t batch_size = options_.engine->step_samples().value_or(batch_size_);
  RETURN_IF_ERROR(LoadBatch(step + 1));
  ASSIGN_OR_RETURN(const BatchResult result, options_.engine->Result());
  RecordLoss(result, batch_size);
  if (const auto round = options_.engine->round()) RecordRound(*round);
  return absl::OkStatus();
}

void TrainingLoop::RecordStepsDone(int64_t steps_done, absl::Time now) {
  const ParameterStore::Times times = options_.store->times();
  absl::Duration step_time;
  {
    MutexLock lock(&mu_);
    const absl::Duration compute = (now - started_) - times.waiting - times.sending;
    // With a GPU, another thread may be sending.
    step_parts_ = {std::max(step_parts_.compute, compute), times.waiting, times.sending};
    // In the first call, the first step has only begun.
    if (steps_done > steps_done_) {
      step_time = (now - latest_) / (steps_done - steps_done_);
      RecordStepTimeLocked(steps_done, step_time);
    }
    has_recorded_ = true;
    steps_done_ = steps_done;
    latest_ = now;
  }
  // Without the lock: this may call progress().
  if (options_.schedule != nullptr && step_time > absl::ZeroDuration()) {
    options_.schedule->RecordStep(step_time);
  }
}

void TrainingLoop::RecordStepTimeLocked(int64_t steps_done, absl::Duration step_time) {
  if (!is_warm_ && steps_done > options_.first_step.value() + kWarmUpSteps) {
    is_warm_ = true;
    step_times_.clear();
  }
  step_times_.push_back(step_time);
  if (step_times_.size() > kTimeWindow) step_times_.pop_front();
}

void TrainingLoop::RecordLoss(const BatchResult& result, size_t batch_size) {
  if (batch_size == 0) return;  // a program has not told them
  MutexLock lock(&mu_);
  samples_ += batch_size;
  recent_.emplace_back(result.loss_sum, batch_size);
  if (recent_.size() > kLossWindow) recent_.pop_front();
  const double loss = RecentLossLocked();
  if (recent_.size() <= kFirstSteps && options_.first_step == Step(0)) first_loss_ = loss;
  if (recent_.size() >= kFirstSteps) largest_loss_ = std::max(largest_loss_, loss);
}

void TrainingLoop::RecordRound(const Engine::Round& round) {
  MutexLock lock(&mu_);
  local_steps_ += static_cast<uint64_t>(round.local_steps);
  drift_ = round.drift;
}

double TrainingLoop::RecentLossLocked() const {
  double loss_sum = 0;
  size_t samples = 0;
  for (const auto& [sum, count] : recent_) {
    loss_sum += sum;
    samples += count;
  }
  return samples > 0 ? loss_sum / static_cast<double>(samples) : 0;
}

TrainingLoop::StepParts TrainingLoop::step_parts() const {
  const ParameterStore::Times times = options_.store->times();
  MutexLock lock(&mu_);
  return {step_parts_.compute, times.waiting, times.sending};
}

v1::Progress TrainingLoop::progress() const {
  const ParameterStore::Traffic traffic = options_.store->traffic();
  v1::Progress progress;
  progress.set_bytes_pushed(traffic.bytes_pushed);
  progress.set_bytes_pulled(traffic.bytes_pulled);
  progress.set_float_bytes_pushed(traffic.float_bytes_pushed);
  progress.set_float_bytes_pulled(traffic.float_bytes_pulled);
  progress.set_gradient_squares(traffic.gradient_squares);
  progress.set_residual_squares(traffic.residual_squares);
  progress.set_max_staleness_seen(traffic.max_staleness_seen);
  progress.set_steps_ahead(traffic.steps_ahead);
  progress.set_mean_staleness_seen(traffic.mean_staleness_seen);
  progress.mutable_replies_of_staleness()->Assign(traffic.replies_of_staleness.begin(),
                                                  traffic.replies_of_staleness.end());
  progress.set_seconds_waiting(absl::ToDoubleSeconds(traffic.waiting));
  progress.set_seconds_sending(absl::ToDoubleSeconds(traffic.sending));
  progress.set_seconds_coding(absl::ToDoubleSeconds(traffic.coding));
  if (options_.schedule != nullptr) *progress.mutable_period() = options_.schedule->times();
  MutexLock lock(&mu_);
  progress.set_loss(RecentLossLocked());
  if (first_loss_.has_value()) progress.set_first_loss(*first_loss_);
  progress.set_largest_loss(largest_loss_);
  progress.set_median_step_seconds(
      absl::ToDoubleSeconds(MedianTime({step_times_.begin(), step_times_.end()})));
  // A worker that has no step to do must not look as if it had finished before Run has: the last
  // checkpoint needs the own state that it sends with its pull.
  progress.set_steps_done(has_recorded_ || HasStep(options_.first_step) ? steps_done_ : 0);
  progress.set_steps_total(steps_total_);
  progress.set_ends_early(ends_early_);
  progress.set_samples(samples_);
  progress.set_local_steps(local_steps_);
  progress.set_drift(drift_);
  if (steps_done_ > options_.first_step.value()) {
    progress.set_seconds(absl::ToDoubleSeconds(latest_ - started_));
  }
  return progress;
}

}  // namespace capstan
