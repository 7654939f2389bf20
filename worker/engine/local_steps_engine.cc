#include "worker/engine/local_steps_engine.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/job/local_steps_check.h"
#include "common/routing/job_view.h"
#include "worker/engine/layer_trace.h"

namespace capstan {
namespace {

double SquareOf(absl::Span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> LocalStepsEngine::Create(
    std::unique_ptr<LocalTrainer> trainer, const EngineOptions& options) {
  std::unique_ptr<LocalStepsEngine> engine(new LocalStepsEngine(std::move(trainer), options));
  RETURN_IF_ERROR(engine->MakeFragments());
  return engine;
}

LocalStepsEngine::LocalStepsEngine(std::unique_ptr<LocalTrainer> trainer,
                                   const EngineOptions& options)
    : settings_(RoundsOf(*options.local_steps)),
      trainer_(std::move(trainer)),
      tracer_(options.tracer),
      track_(tracer_ == nullptr ? 0 : tracer_->Track(kTrainingTrack)),
      rounds_(settings_, options.clock) {}

absl::Status LocalStepsEngine::MakeFragments() {
  std::vector<uint64_t> elements;  // of each layer
  for (uint32_t i = 0; i < tables().size(); ++i) {
    const v1::TableSpec& table = tables()[i];
    if (elements.size() <= table.layer()) {
      elements.resize(table.layer() + 1);
      tables_of_layer_.resize(table.layer() + 1);
    }
    elements[table.layer()] += ElementCount(table);
    tables_of_layer_[table.layer()].push_back(TableId(i));
  }
  if (settings_.fragments() > elements.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--fragments: expected at most one for each of the model's ", elements.size(),
                     " layers, got ", settings_.fragments()));
  }
  const int count = static_cast<int>(settings_.fragments());
  const std::vector<int> firsts = SplitIntoFragments(elements, count);
  for (int i = 0; i < count; ++i) fragments_.push_back({firsts[i], firsts[i + 1] - 1, {}});
  return absl::OkStatus();
}

void LocalStepsEngine::BeginTraining(Step first_step, bool /*sets_initial_values*/,
                                     ParameterStore& /*store*/) {
  // In rounds by time nobody knows how many batches earlier ones had.
  next_batch_ = first_step.value();
  for (Fragment& fragment : fragments_) fragment.due = 0;  // the first pull
}

absl::Status LocalStepsEngine::LoadBatch(const Dataset& dataset,
                                         absl::Span<const uint32_t> samples) {
  samples_ += samples.size();
  return trainer_->LoadBatch(dataset, samples);
}

absl::Status LocalStepsEngine::RunStep(Step step, ParameterStore& store) {
  if (settings_.sync_every() > 0) next_batch_ = step.value() * settings_.sync_every();
  RETURN_IF_ERROR(TakeDue(store));
  result_ = {};
  samples_ = 0;
  difference_square_ = value_square_ = 0;
  rounds_.Begin();
  while (!rounds_.is_over()) {
    RETURN_IF_ERROR(TakeDue(store));
    RETURN_IF_ERROR(RunLocalStep());
    const int pushed = rounds_.pushed();
    rounds_.NoteStep();
    for (int i = pushed; i < rounds_.pushed(); ++i) {
      RETURN_IF_ERROR(Push(fragments_[i], step, store));
    }
  }
  round_.local_steps = rounds_.local_steps();
  round_.drift = value_square_ > 0 ? std::sqrt(difference_square_ / value_square_) : 0;
  return absl::OkStatus();
}

absl::Status LocalStepsEngine::RunLocalStep() {
  const TraceSpan span(tracer_, track_, "local step", {{"local_step", rounds_.local_steps()}});
  RETURN_IF_ERROR(load_(next_batch_++));
  ASSIGN_OR_RETURN(const BatchResult result, trainer_->Step());
  result_.loss_sum += result.loss_sum;
  result_.correct += result.correct;
  return absl::OkStatus();
}

absl::Status LocalStepsEngine::TakeDue(ParameterStore& store) {
  RETURN_IF_ERROR(store.WaitForLayerFor(/*layer=*/0, absl::ZeroDuration()).status());
  for (Fragment& fragment : fragments_) {
    if (fragment.due.has_value() && *fragment.due <= rounds_.total()) {
      RETURN_IF_ERROR(Take(fragment, store));
    }
  }
  return absl::OkStatus();
}

absl::Status LocalStepsEngine::Take(Fragment& fragment, ParameterStore& store) {
  const TraceSpan span(tracer_, track_, "wait", {{"layer", fragment.first_layer}});
  fragment.due.reset();
  for (int layer = fragment.first_layer; layer <= fragment.last_layer; ++layer) {
    RETURN_IF_ERROR(store.WaitForLayer(layer));
    for (const TableId table : tables_of_layer_[layer]) {
      RETURN_IF_ERROR(trainer_->Take(table, store.values()[table.value()]));
    }
  }
  return absl::OkStatus();
}

absl::Status LocalStepsEngine::Push(Fragment& fragment, Step step, ParameterStore& store) {
  // A round by time may have few local steps.
  if (fragment.due.has_value()) RETURN_IF_ERROR(Take(fragment, store));
  const TraceSpan span(tracer_, track_, "push", {{"layer", fragment.first_layer}});
  for (int layer = fragment.last_layer; layer >= fragment.first_layer; --layer) {
    for (const TableId table : tables_of_layer_[layer]) {
      const absl::Span<const float> values = store.values()[table.value()];
      const absl::Span<float> difference = store.gradients()[table.value()];
      RETURN_IF_ERROR(trainer_->Push(table, values, difference));
      difference_square_ += SquareOf(difference);
      value_square_ += SquareOf(values);
    }
    store.PushPull(layer, step);
  }
  fragment.due = rounds_.total() + settings_.fragment_sync_delay();
  return absl::OkStatus();
}

absl::Status LocalStepsEngine::RunForward(ParameterStore& store) {
  RETURN_IF_ERROR(store.WaitForAll());
  ASSIGN_OR_RETURN(result_, trainer_->Forward(store.values()));
  return absl::OkStatus();
}

}  // namespace capstan
