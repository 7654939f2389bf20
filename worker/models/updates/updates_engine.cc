#include "worker/models/updates/updates_engine.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/test_values.h"

namespace capstan {

UpdatesEngine::UpdatesEngine(const Options& options) : options_(options) {
  for (uint32_t i = 0; i < options.tables; ++i) {
    v1::TableSpec& table = tables_.emplace_back();
    table.set_name(absl::StrCat("updates.", i));
    table.add_shape(options.num_workers * static_cast<uint64_t>(options.steps));
    table.set_layer(i);
    table.mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
    table.mutable_optimizer()->set_learning_rate(1);
  }
}

absl::Status UpdatesEngine::RunStep(Step step, ParameterStore& store) {
  RETURN_IF_ERROR(RunForward(store));
  SleepUntil(*options_.clock, options_.clock->Now() + options_.compute_time);
  for (int layer = static_cast<int>(tables_.size()) - 1; layer >= 0; --layer) {
    const absl::Span<float> gradient = store.gradients()[static_cast<size_t>(layer)];
    if (pushed_.has_value()) gradient[TestElement(worker_, *pushed_, options_.steps)] = 0;
    // SGD subtracts it.
    gradient[TestElement(worker_, step, options_.steps)] = -kTestUpdate;
    store.PushPull(layer, step);
  }
  pushed_ = step;
  return absl::OkStatus();
}

absl::Status UpdatesEngine::RunForward(ParameterStore& store) {
  for (int layer = 0; layer < static_cast<int>(tables_.size()); ++layer) {
    RETURN_IF_ERROR(store.WaitForLayer(layer));
  }
  return absl::OkStatus();
}

JobSetup PrepareUpdatesJob(const v1::JobSpec& job, Clock* clock) {
  UpdatesEngine::Options options;
  options.tables = job.model().updates().tables();
  options.num_workers = job.cluster().num_workers();
  options.steps = static_cast<int64_t>(job.training().steps());
  options.compute_time = absl::Seconds(job.model().updates().compute_seconds());
  options.clock = clock;
  const auto engine = std::make_shared<UpdatesEngine>(options);
  JobSetup setup;
  setup.engine = engine;
  setup.steps = options.steps;
  setup.on_registered = [engine = engine.get()](WorkerId worker) { engine->SetWorker(worker); };
  // The last pull shows what the job ends with.
  setup.evaluate = [](Step steps, ParameterStore& store, v1::ReportResultRequest&) {
    store.PullAllExactly(steps);
    return store.WaitForAll();
  };
  return setup;
}

}  // namespace capstan
