#include "tests/simulation/scripted_engine.h"

#include <glog/logging.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/history/history.h"
#include "common/job/job_properties.h"
#include "common/routing/job_view.h"
#include "common/tensor/slicing.h"

namespace capstan {
namespace {

// Each sample is one worker's turn at one of `steps` steps, in the order of the sampler.
Dataset Turns(BatchSampler sampler, uint32_t workers, int64_t steps) {
  Dataset turns;
  turns.feature_count = 2;
  turns.class_count = 1;
  turns.labels.resize(workers * static_cast<size_t>(steps));
  turns.features.resize(2 * turns.labels.size());
  for (int64_t step = 0; step < steps; ++step) {
    for (uint32_t worker = 0; worker < workers; ++worker) {
      const size_t sample = sampler.Indices(WorkerId(worker), Step(step)).at(0);
      turns.features[2 * sample] = static_cast<float>(worker);
      turns.features[2 * sample + 1] = static_cast<float>(step);
    }
  }
  return turns;
}

// Those of a store.
class StoreLayers : public StepLayers {
 public:
  StoreLayers(Step step, ParameterStore& store) : step_(step), store_(store) {}

  absl::Status Wait(int layer) override { return store_.WaitForLayer(layer); }
  absl::Span<const absl::Span<float>> gradients() override { return store_.gradients(); }
  void SetLearningRate(TableId table, double learning_rate) override {
    store_.SetLearningRate(table, learning_rate);
  }
  void SetMomentum(TableId table, double momentum) override { store_.SetMomentum(table, momentum); }
  absl::Status Push(int layer) override {
    store_.PushPull(layer, step_);
    return absl::OkStatus();
  }
  absl::Status PushNothing(int layer) override {
    store_.PushNothing(layer, step_);
    return absl::OkStatus();
  }

 private:
  const Step step_;
  ParameterStore& store_;
};

}  // namespace

float DenseGradient(WorkerId worker, Step step, SliceKey key, size_t element) {
  const uint64_t slice = (uint64_t{key.table.value()} << 32) + key.slice.value();
  const uint64_t turn = (uint64_t{worker.value()} << 32) + static_cast<uint64_t>(step.value());
  Random random(/*seed=*/(slice << 8) + element, /*stream=*/turn);
  return 37.0f * (static_cast<float>(random.UniformInt(41)) - 20.0f);
}

ScriptedState::ScriptedState(uint32_t arrays, const std::vector<v1::TableSpec>& tables,
                             uint64_t slice_bytes)
    : arrays_(arrays) {
  for (uint32_t table = 0; table < tables.size(); ++table) {
    const Slicing slicing(ElementCount(tables[table]), slice_bytes);
    for (uint32_t slice = 0; slice < slicing.slice_count(); ++slice) {
      const size_t size = slicing.Range(SliceIndex(slice)).size;
      slices_[{TableId(table), SliceIndex(slice)}] =
          std::make_shared<std::vector<float>>(arrays * size);
    }
  }
}

Payload ScriptedState::Save(SliceKey key) {
  const std::shared_ptr<std::vector<float>>& state = slices_.at(key);
  return Payload(absl::MakeConstSpan(*state), state);
}

void ScriptedState::Load(SliceKey key, absl::Span<const float> state) {
  CHECK_EQ(slices_.at(key)->size(), state.size());
  slices_.at(key)->assign(state.begin(), state.end());
}

void ScriptedState::Add(SliceKey key, size_t element, float gradient) {
  std::vector<float>& state = *slices_.at(key);
  for (uint32_t array = 0; array < arrays_; ++array) {
    state.at(array * state.size() / arrays_ + element) += static_cast<float>(array + 1) * gradient;
  }
}

void ScriptedState::ForEachSlice(
    absl::FunctionRef<void(SliceKey key, const std::vector<float>& state)> visit) const {
  for (const auto& [key, state] : slices_) visit(key, *state);
}

ScriptedEngine::ScriptedEngine(Options options) : options_(std::move(options)) {
  if (options_.own_arrays > 0) {
    own_state_ =
        std::make_unique<ScriptedState>(options_.own_arrays, options_.tables, options_.slice_bytes);
  }
  for (const v1::TableSpec& table : options_.tables) {
    layer_count_ = std::max(layer_count_, static_cast<int>(table.layer()) + 1);
  }
}

absl::Status ScriptedEngine::LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) {
  const absl::Span<const float> features = dataset.Row(samples.at(0));
  loaded_.push_back({WorkerId(static_cast<uint32_t>(features.at(0))),
                     Step(static_cast<int64_t>(features.at(1)))});
  return absl::OkStatus();
}

absl::Status ScriptedEngine::RunStep(Step step, ParameterStore& store) {
  const Turn turn = loaded_.at(0);
  loaded_.pop_front();
  if (options_.has_test_values) CHECK_EQ(turn.step, step) << "the batch of another step";
  StoreLayers layers(step, store);
  return Compute({turn.worker, step}, layers);
}

absl::Status ScriptedEngine::Compute(const Turn& turn, StepLayers& layers) {
  const absl::Duration compute_time = options_.compute_time();
  const absl::Duration forward_time = compute_time / 3;
  RETURN_IF_ERROR(Forward(forward_time, layers));
  if (!std::exchange(has_begun_, true)) TellFirstState(turn);
  for (int layer = layer_count_ - 1; layer >= 0; --layer) {
    SleepUntil(*options_.clock,
               options_.clock->Now() + (compute_time - forward_time) / layer_count_);
    RETURN_IF_ERROR(Push(layer, turn, layers));
  }
  return absl::OkStatus();
}

absl::Status ScriptedEngine::Push(int layer, const Turn& turn, StepLayers& layers) const {
  if (options_.program.has_value()) {
    for (uint32_t i = 0; i < options_.tables.size(); ++i) {
      if (static_cast<int>(options_.tables[i].layer()) != layer) continue;
      const auto rate = options_.program->LearningRate(turn.worker, turn.step, TableId(i));
      if (rate.has_value()) layers.SetLearningRate(TableId(i), *rate);
      const v1::TableSpec& table = options_.tables[i];
      const v1::OptimizerSpec& optimizer =
          table.has_optimizer() ? table.optimizer() : options_.optimizer;
      if (optimizer.type() != v1::OptimizerSpec::MOMENTUM || table.has_sparse() ||
          table.replies_mean()) {
        continue;
      }
      const auto momentum = options_.program->Momentum(turn.worker, turn.step, TableId(i));
      if (momentum.has_value()) layers.SetMomentum(TableId(i), *momentum);
    }
    if (!options_.program->HasGradient(turn.worker, turn.step, static_cast<uint32_t>(layer))) {
      return layers.PushNothing(layer);
    }
  }
  if (options_.has_test_values) WriteGradients(layer, turn, layers);
  return layers.Push(layer);
}

void ScriptedEngine::TellFirstState(const Turn& turn) {
  if (own_state_ == nullptr || options_.on_first_state == nullptr) return;
  own_state_->ForEachSlice([&](SliceKey key, const std::vector<float>& state) {
    options_.on_first_state(turn.worker, turn.step, key, state);
  });
}

absl::Status ScriptedEngine::RunForward(ParameterStore& store) {
  loaded_.pop_front();
  StoreLayers layers(Step(0), store);
  return Forward(absl::ZeroDuration(), layers);
}

absl::Status ScriptedEngine::Forward(absl::Duration time, StepLayers& layers) {
  for (int layer = 0; layer < layer_count_; ++layer) {
    RETURN_IF_ERROR(layers.Wait(layer));
    SleepUntil(*options_.clock, options_.clock->Now() + time / layer_count_);
  }
  return absl::OkStatus();
}

void ScriptedEngine::WriteGradients(int layer, const Turn& turn, StepLayers& layers) const {
  const size_t element = TestElement(turn.worker, turn.step, options_.steps);
  for (uint32_t table = 0; table < options_.tables.size(); ++table) {
    if (static_cast<int>(options_.tables[table].layer()) != layer) continue;
    const absl::Span<float> gradient = layers.gradients()[table];
    const Slicing slicing(gradient.size(), options_.slice_bytes);
    for (uint32_t slice = 0; slice < slicing.slice_count(); ++slice) {
      const SliceKey key{TableId(table), SliceIndex(slice)};
      const SliceRange range = slicing.Range(key.slice);
      WriteGradient(key, turn, gradient.subspan(range.offset, range.size));
      if (own_state_ != nullptr) own_state_->Add(key, element, -kTestUpdate);
    }
  }
}

void ScriptedEngine::WriteGradient(SliceKey key, const Turn& turn,
                                   absl::Span<float> gradient) const {
  if (options_.gradient_unit != 0) {
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = options_.gradient_unit * DenseGradient(turn.worker, turn.step, key, i);
    }
    return;
  }
  const size_t element = TestElement(turn.worker, turn.step, options_.steps);
  // The last gradient may be some steps old.
  const int64_t before = options_.program.has_value() ? turn.step.value() : 1;
  for (int64_t i = 1; i <= before && i <= turn.step.value(); ++i) {
    gradient.at(element - static_cast<size_t>(i)) = 0;
  }
  gradient.at(element) = TestGradient(key.table, turn);
}

float ScriptedEngine::TestGradient(TableId table, const Turn& turn) const {
  // SGD subtracts it.
  if (!options_.program.has_value() || options_.program->has_rates_by_worker) return -kTestUpdate;
  const auto rate = options_.program->LearningRate(turn.worker, turn.step, table);
  return -kTestUpdate / static_cast<float>(rate.value_or(1));
}

std::unique_ptr<ScriptedEngine> MakeScriptedEngine(
    const Scenario& scenario, uint32_t process, Clock* clock,
    ScriptedEngine::FirstStateCallback on_first_state) {
  ScriptedEngine::Options options;
  options.clock = clock;
  options.tables = scenario.tables;
  options.optimizer = scenario.job.optimizer();
  options.slice_bytes = SliceBytes(scenario.job.scheduler());
  options.steps = scenario.steps;
  options.has_test_values = scenario.has_test_values;
  options.gradient_unit = scenario.gradient_unit;
  options.program = scenario.program;
  options.own_arrays = scenario.own_arrays;
  options.on_first_state = std::move(on_first_state);
  options.compute_time = [&scenario, process, random = ComputeRandom(scenario, process)]() mutable {
    return scenario.compute_time(process, random);
  };
  return std::make_unique<ScriptedEngine>(std::move(options));
}

JobPreparer ScriptedJobPreparer(const Scenario& scenario, uint32_t process,
                                ScriptedEngine::FirstStateCallback on_first_state) {
  return [&scenario, process, on_first_state = std::move(on_first_state)](
             const v1::JobSpec& job, Clock* clock) -> absl::StatusOr<JobSetup> {
    const uint32_t workers = job.cluster().num_workers();
    // Without test values nobody reads the turns. One step's turns serve all steps.
    const int64_t steps = scenario.has_test_values ? scenario.steps : 1;
    BatchSampler::Options options;
    options.sample_count = workers * static_cast<uint64_t>(steps);
    options.num_workers = workers;
    options.batch_size = 1;
    options.seed = job.seed();
    ASSIGN_OR_RETURN(BatchSampler sampler, BatchSampler::Create(options));
    Dataset turns = Turns(sampler, workers, steps);
    return JobSetup{{turns, turns, ""},
                    MakeScriptedEngine(scenario, process, clock, on_first_state),
                    sampler,
                    job.stay() ? scenario.round_steps : scenario.steps,
                    nullptr,
                    nullptr};
  };
}

}  // namespace capstan
