#include "tests/cluster/serial_training.h"

#include <glog/logging.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "common/optimizer/optimizer.h"
#include "common/routing/job_view.h"
#include "common/tensor/host_buffer.h"
#include "server/slice/slice_values.h"
#include "worker/engine/cpu_engine.h"
#include "worker/models/training/evaluate.h"
#include "worker/models/training/gathered_batch.h"
#include "worker/models/training/make_model.h"
#include "worker/models/training/model_on_cpu.h"
#include "worker/runtime/job_setup.h"

namespace capstan {
namespace {

// All tables, unsliced, with their optimizer state.
struct Parameters {
  std::vector<HostBuffer> values, gradients, sums;
  std::vector<std::vector<HostBuffer>> states;

  std::vector<absl::Span<const float>> ValueSpans() const {
    std::vector<absl::Span<const float>> spans;
    for (const HostBuffer& buffer : values) spans.push_back(buffer.span());
    return spans;
  }
  std::vector<absl::Span<float>> GradientSpans() {
    std::vector<absl::Span<float>> spans;
    for (HostBuffer& buffer : gradients) spans.push_back(buffer.span());
    return spans;
  }
};

Parameters Initialize(const v1::JobSpec& job, const std::vector<v1::TableSpec>& tables,
                      const Optimizer& optimizer) {
  Parameters parameters;
  for (uint32_t table = 0; table < tables.size(); ++table) {
    const v1::TableSpec& spec = tables[table];
    const uint64_t elements = ElementCount(spec);
    parameters.values.emplace_back(elements);
    parameters.gradients.emplace_back(elements);
    parameters.sums.emplace_back(elements);
    InitializeValues(job.seed(), TableId(table), spec.initial_stddev(), /*offset=*/0,
                     parameters.values.back().span());
    parameters.states.emplace_back();
    for (int i = 0; i < optimizer.state_count(); ++i) {
      parameters.states.back().emplace_back(elements);
    }
  }
  return parameters;
}

void AddGradients(uint32_t worker, Parameters& parameters) {
  for (size_t table = 0; table < parameters.sums.size(); ++table) {
    for (size_t i = 0; i < parameters.sums[table].size(); ++i) {
      const float gradient = parameters.gradients[table].data()[i];
      float& sum = parameters.sums[table].data()[i];
      sum = worker == 0 ? gradient : sum + gradient;
    }
  }
}

void ApplyMean(int64_t step, uint32_t num_workers, const Optimizer& optimizer,
               Parameters& parameters) {
  for (size_t table = 0; table < parameters.sums.size(); ++table) {
    if (num_workers > 1) {
      for (float& sum : parameters.sums[table].span()) sum /= static_cast<float>(num_workers);
    }
    std::vector<absl::Span<float>> state;
    for (HostBuffer& buffer : parameters.states[table]) state.push_back(buffer.span());
    optimizer.Apply(parameters.sums[table].span(), {step + 1}, parameters.values[table].span(),
                    state);
  }
}

std::unique_ptr<ModelOnCpu> MakeModelOnCpu(const v1::JobSpec& job, const Dataset& train) {
  const int64_t max_samples = std::max<int64_t>(job.training().batch_size(), kEvaluationBatch);
  return ModelOnCpu::Create(
             MakeModel<CpuStream>(job.model(), train.feature_count, train.class_count).value(),
             max_samples)
      .value();
}

absl::Status DoNothing(int /*layer*/) { return absl::OkStatus(); }

}  // namespace

SerialResult TrainSerially(const v1::JobSpec& job) {
  JobSetup setup = PrepareJob(job, MakeCpuEngine, /*clock=*/nullptr).value();
  const std::unique_ptr<ModelOnCpu> model = MakeModelOnCpu(job, setup.data.train);
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(job.optimizer()).value();
  Parameters parameters = Initialize(job, model->model().tables(), *optimizer);
  const uint32_t num_workers = job.cluster().num_workers();
  GatheredBatch gathered;
  for (int64_t step = 0; step < setup.steps; ++step) {
    for (uint32_t worker = 0; worker < num_workers; ++worker) {
      gathered.Gather(setup.data.train, setup.sampler->Indices(WorkerId(worker), Step(step)));
      const Batch batch = gathered.batch();
      model->Forward(batch, parameters.ValueSpans(), DoNothing).value();
      CHECK(model->Backward(batch, parameters.ValueSpans(), parameters.GradientSpans(), DoNothing)
                .ok());
      AddGradients(worker, parameters);
    }
    ApplyMean(step, num_workers, *optimizer, parameters);
  }
  SerialResult result;
  result.parameters_xxh3 = HashParameters(parameters.ValueSpans());
  result.test_accuracy =
      Evaluate(setup.data.test.size(),
               [&](absl::Span<const uint32_t> samples) {
                 gathered.Gather(setup.data.test, samples);
                 return model->Forward(gathered.batch(), parameters.ValueSpans(), DoNothing);
               })
          .value()
          .accuracy;
  return result;
}

}  // namespace capstan
