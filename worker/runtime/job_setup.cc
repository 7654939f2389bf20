#include "worker/runtime/job_setup.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "worker/dataset/load_data.h"
#include "worker/models/training/evaluate.h"

namespace capstan {

absl::StatusOr<JobSetup> PrepareJob(const v1::JobSpec& job, const EngineFactory& make_engine,
                                    Clock* clock) {
  ASSIGN_OR_RETURN(DataSplit data, LoadData(job.data(), job.seed()));
  if (!data.warning.empty()) LOG(WARNING) << data.warning;
  EngineOptions engine_options;
  engine_options.model = job.model();
  engine_options.feature_count = data.train.feature_count;
  engine_options.class_count = data.train.class_count;
  engine_options.max_samples = std::max<int64_t>(job.training().batch_size(), kEvaluationBatch);
  engine_options.clock = clock;
  if (HasLocalSteps(job)) engine_options.local_steps = job.training().local_steps();
  ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, make_engine(engine_options));
  BatchSampler::Options options;
  options.sample_count = data.train.size();
  options.num_workers = job.cluster().num_workers();
  options.batch_size = job.training().batch_size();
  options.seed = job.seed();
  ASSIGN_OR_RETURN(BatchSampler sampler, BatchSampler::Create(options));
  const int64_t steps = job.training().steps() > 0
                            ? static_cast<int64_t>(job.training().steps())
                            : RoundsFor(job.training().epochs() * sampler.steps_per_epoch(),
                                        job.training().local_steps());
  return JobSetup{std::move(data), std::move(engine), std::move(sampler), steps, nullptr, nullptr};
}

absl::Status EvaluateOnTestData(JobSetup& setup, Step steps, ParameterStore& store,
                                v1::ReportResultRequest& result) {
  store.PullAllExactly(steps);
  RETURN_IF_ERROR(store.WaitForAll());
  const Dataset& test = setup.data.test;
  ASSIGN_OR_RETURN(
      const Evaluation evaluation,
      Evaluate(test.size(), [&](absl::Span<const uint32_t> samples) -> absl::StatusOr<BatchResult> {
        RETURN_IF_ERROR(setup.engine->LoadBatch(test, samples));
        RETURN_IF_ERROR(setup.engine->RunForward(store));
        return setup.engine->Result();
      }));
  result.set_test_accuracy(evaluation.accuracy);
  result.set_test_loss(evaluation.loss);
  result.set_test_samples(test.size());
  result.set_data_warning(setup.data.warning);
  result.set_guess_loss(BestConstantGuess(setup.data.train.labels).loss);
  result.set_guess_accuracy(BestConstantGuess(test.labels).accuracy);
  return absl::OkStatus();
}

JobPreparer JobPreparerOf(EngineFactory make_engine) {
  return [make_engine = std::move(make_engine)](const v1::JobSpec& job, Clock* clock) {
    return PrepareJob(job, make_engine, clock);
  };
}

}  // namespace capstan
