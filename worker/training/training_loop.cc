#include "worker/training/training_loop.h"

#include "common/base/status_macros.h"

namespace capstan {

absl::Status TrainingLoop::Run() {
  {
    MutexLock lock(&mu_);
    started_ = latest_ = options_.clock->Now();
  }
  options_.store->PullAll(Step(0));
  for (Step step; step < Step(options_.steps); step = step + 1) RETURN_IF_ERROR(RunStep(step));
  RETURN_IF_ERROR(options_.store->WaitForAll());
  RecordStepsDone(options_.steps);
  return absl::OkStatus();
}

absl::Status TrainingLoop::RunStep(Step step) {
  ParameterStore& store = *options_.store;
  const Batch batch =
      batch_.Gather(*options_.train, options_.sampler->Indices(options_.worker, step));
  absl::StatusOr<BatchResult> result = options_.model->Forward(
      batch, store.values(), [&store](int layer) { return store.WaitForLayer(layer); });
  if (!result.ok()) return result.status();
  // The forward pass has waited for every layer, so that all of the step before has been answered.
  RecordStepsDone(step.value());
  options_.model->Backward(batch, store.values(), store.gradients(),
                           [&store, step](int layer) { store.PushPull(layer, step); });
  RecordLoss(*result, batch.labels.size());
  return absl::OkStatus();
}

void TrainingLoop::RecordStepsDone(int64_t steps_done) {
  const absl::Time now = options_.clock->Now();
  MutexLock lock(&mu_);
  steps_done_ = steps_done;
  latest_ = now;
}

void TrainingLoop::RecordLoss(const BatchResult& result, size_t batch_size) {
  MutexLock lock(&mu_);
  samples_ += batch_size;
  recent_.emplace_back(result.loss_sum, batch_size);
  if (recent_.size() > kLossWindow) recent_.pop_front();
}

v1::Progress TrainingLoop::progress() const {
  const ParameterStore::Traffic traffic = options_.store->traffic();
  v1::Progress progress;
  progress.set_steps_total(options_.steps);
  progress.set_bytes_pushed(traffic.bytes_pushed);
  progress.set_bytes_pulled(traffic.bytes_pulled);
  progress.set_max_staleness_seen(traffic.max_staleness_seen);
  progress.set_steps_ahead(traffic.steps_ahead);
  MutexLock lock(&mu_);
  double loss_sum = 0;
  size_t samples = 0;
  for (const auto& [sum, count] : recent_) {
    loss_sum += sum;
    samples += count;
  }
  if (samples > 0) progress.set_loss(loss_sum / static_cast<double>(samples));
  progress.set_steps_done(steps_done_);
  progress.set_samples(samples_);
  if (steps_done_ > 0) progress.set_seconds(absl::ToDoubleSeconds(latest_ - started_));
  return progress;
}

}  // namespace capstan
