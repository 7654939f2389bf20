#include "worker/models/sparse_training/stream_trainer.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "worker/models/sparse_training/logistic_loss.h"
#include "worker/models/sparse_training/step_batches.h"

namespace capstan {
namespace {

// The engine ends all waits when the job has ended.
constexpr absl::Duration kForever = absl::InfiniteDuration();

}  // namespace

StreamTrainer::StreamTrainer(Options options)
    : options_(std::move(options)),
      is_ftrl_(options_.job.optimizer().type() == v1::OptimizerSpec::FTRL) {}

absl::StatusOr<std::shared_ptr<SampleStream>> StreamTrainer::OpenStream(const SampleShare& share) {
  ASSIGN_OR_RETURN(std::unique_ptr<SampleStream> stream, options_.data->OpenTraining(share));
  MutexLock lock(&mu_);
  if (is_cancelled_) return absl::CancelledError("the worker ends");
  stream_ = std::move(stream);
  return stream_;
}

void StreamTrainer::Cancel() {
  std::shared_ptr<SampleStream> stream;
  {
    MutexLock lock(&mu_);
    is_cancelled_ = true;
    stream = stream_;
  }
  if (stream != nullptr) stream->Cancel();
}

absl::Status StreamTrainer::Run(WorkerId worker) {
  ProgramEngine& engine = *options_.engine;
  RETURN_IF_ERROR(engine.steps().AwaitStart(kForever));
  RETURN_IF_ERROR(Train({worker.value(), options_.job.cluster().num_workers()}));
  RETURN_IF_ERROR(engine.steps().End());
  ASSIGN_OR_RETURN(const bool is_evaluator, engine.steps().AwaitEvaluation(kForever));
  if (!is_evaluator) return absl::OkStatus();
  v1::ReportResultRequest result;
  RETURN_IF_ERROR(Evaluate(result));
  return engine.steps().Report(result, kForever);
}

absl::Status StreamTrainer::Train(const SampleShare& share) {
  ASSIGN_OR_RETURN(const std::shared_ptr<SampleStream> stream, OpenStream(share));
  ProgramEngine& engine = *options_.engine;
  const int64_t first_step = engine.steps().current().value();
  StepBatches::Options options;
  options.batch_size = options_.job.training().batch_size();
  options.epochs = options_.job.training().epochs();
  options.share = share;
  const bool is_cut_by_steps = options_.job.training().steps() > 0 || options_.job.stay();
  // The end of the round, in a job that stays.
  if (is_cut_by_steps) options.steps = EndStep(options_.job, options_.steps, first_step);
  StepBatches batches(options, stream.get());
  StepInput input, next;
  // Another process has done the earlier steps.
  for (int64_t step = 0; step < first_step; ++step) {
    RETURN_IF_ERROR(batches.Next(&input.batch).status());
    labels_.Add(input.batch.labels());
  }
  ASSIGN_OR_RETURN(bool has_step, batches.Next(&input.batch));
  options_.model->ListKeys(input.batch, &input.keys);
  if (has_step) RETURN_IF_ERROR(engine.rows().Pull(SparseModel::kRows, input.keys, kForever));
  while (has_step) {
    ASSIGN_OR_RETURN(has_step, batches.Next(&next.batch));
    if (!has_step) next.batch.Clear();
    options_.model->ListKeys(next.batch, &next.keys);
    RETURN_IF_ERROR(TrainStep(input, next.keys));
    std::swap(input, next);
  }
  return absl::OkStatus();
}

float StreamTrainer::GradientScale(size_t samples) const {
  if (!is_ftrl_) return 1 / static_cast<float>(samples);
  // FTRL gets the sum, so its parameters mean the same for each size of a batch. BSP applies the
  // mean of all workers.
  const bool is_bsp = options_.job.consistency().mode() == v1::ConsistencySpec::BSP;
  return is_bsp ? static_cast<float>(options_.job.cluster().num_workers()) : 1;
}

absl::Status StreamTrainer::ReadRows(StepInput& input) {
  RETURN_IF_ERROR(
      CheckRowsOfBatch(input.keys.size(), options_.model->row_dim(), "use a smaller --batch_size"));
  input.rows.resize(input.keys.size() * options_.model->row_dim());
  // Without keys nothing was pulled.
  if (input.keys.empty()) return absl::OkStatus();
  return options_.engine->rows().Read(SparseModel::kRows, absl::MakeSpan(input.rows), kForever);
}

absl::Status StreamTrainer::TrainStep(StepInput& input, absl::Span<const uint64_t> next_keys) {
  ProgramEngine& engine = *options_.engine;
  SparseModel& model = *options_.model;
  const SparseBatch& batch = input.batch;
  const size_t samples = batch.size();
  if (samples == 0) return engine.EndStep(/*loss=*/0, samples, kForever);
  RETURN_IF_ERROR(ReadRows(input));
  log_odds_.resize(samples);
  log_odds_gradient_.resize(samples);
  row_gradients_.resize(input.rows.size());
  RETURN_IF_ERROR(model.Forward(
      batch, input.rows, engine.values(),
      [&engine](int layer) { return engine.Wait(layer, kForever); }, absl::MakeSpan(log_odds_)));
  const double loss = LogisticLoss(log_odds_, batch.labels(), GradientScale(samples),
                                   absl::MakeSpan(log_odds_gradient_));
  RETURN_IF_ERROR(model.Backward(
      batch, input.rows, engine.values(), log_odds_gradient_,
      [&engine](int layer) { return engine.Push(layer, kForever); }, absl::MakeSpan(row_gradients_),
      engine.gradients()));
  RETURN_IF_ERROR(
      engine.rows().Push(SparseModel::kRows, input.keys, row_gradients_, next_keys, kForever));
  labels_.Add(batch.labels());
  return engine.EndStep(loss / static_cast<double>(samples), samples, kForever);
}

absl::Status StreamTrainer::LogOddsOf(const SparseBatch& batch, absl::Span<float> log_odds) {
  ProgramEngine& engine = *options_.engine;
  SparseModel& model = *options_.model;
  StepInput& input = evaluated_;
  model.ListKeys(batch, &input.keys);
  RETURN_IF_ERROR(engine.rows().Pull(SparseModel::kRows, input.keys, kForever));
  RETURN_IF_ERROR(ReadRows(input));
  if (options_.job.model().type() == v1::ModelSpec::SPARSE_LOGISTIC_REGRESSION) {
    for (size_t i = 0; i < input.keys.size(); ++i) {
      if (seen_.insert(input.keys[i]).second && input.rows[i] != 0) ++nonzero_;
    }
  }
  return model.Forward(
      batch, input.rows, engine.values(), [](int) { return absl::OkStatus(); }, log_odds);
}

absl::Status StreamTrainer::Evaluate(v1::ReportResultRequest& result) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SampleStream> test, options_.data->OpenTest());
  if (test == nullptr) {
    result.set_has_no_accuracy(true);
    result.set_has_no_loss(true);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(EvaluateStream(
      *test, StreamData::kTestBatch, labels_,
      [this](const SparseBatch& batch, absl::Span<float> log_odds) {
        return LogOddsOf(batch, log_odds);
      },
      result));
  if (!seen_.empty()) {
    result.set_nonzero_weights(static_cast<double>(nonzero_) / static_cast<double>(seen_.size()));
  }
  const std::optional<double> best = options_.data->BestTestAuc();
  if (best.has_value()) result.set_best_auc(*best);
  return absl::OkStatus();
}

}  // namespace capstan
