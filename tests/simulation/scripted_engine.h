#ifndef TESTS_SIMULATION_SCRIPTED_ENGINE_H_
#define TESTS_SIMULATION_SCRIPTED_ENGINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/exchange/payload.h"
#include "common/tensor/slicing.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/user_program.h"
#include "worker/client/own_state.h"
#include "worker/engine/engine.h"
#include "worker/runtime/job_setup.h"

namespace capstan {

// The own state of a scripted engine: array a of a slice is a + 1 times the sum of the gradients
// that the engine has pushed to the slice.
class ScriptedState : public OwnState {
 public:
  ScriptedState(uint32_t arrays, const std::vector<v1::TableSpec>& tables, uint64_t slice_bytes);

  uint32_t arrays() const override { return arrays_; }
  Payload Save(SliceKey key) override;
  void Load(SliceKey key, absl::Span<const float> state) override;

  // Adds the gradient to that element of the slice.
  void Add(SliceKey key, size_t element, float gradient);
  // Calls `visit` with each slice's state.
  void ForEachSlice(
      absl::FunctionRef<void(SliceKey key, const std::vector<float>& state)> visit) const;

 private:
  const uint32_t arrays_;
  std::map<SliceKey, std::shared_ptr<std::vector<float>>> slices_;
};

// The element of a slice's gradient in jobs with a gradient_unit: a multiple of 37, from -740 to
// 740. Several elements of a slice have the same absolute value.
float DenseGradient(WorkerId worker, Step step, SliceKey key, size_t element);

// What the computation of a step does to the worker's layers.
class StepLayers {
 public:
  virtual ~StepLayers() = default;

  virtual absl::Status Wait(int layer) = 0;
  virtual absl::Span<const absl::Span<float>> gradients() = 0;
  virtual void SetLearningRate(TableId table, double learning_rate) = 0;
  virtual void SetMomentum(TableId table, double momentum) = 0;
  virtual absl::Status Push(int layer) = 0;
  // The layer has no gradient in this step.
  virtual absl::Status PushNothing(int layer) = 0;
};

// An engine without computation: it waits for its compute time, and pushes test values. A sample
// stands for one worker at one step. Its features are the worker and the step. Not thread-safe.
class ScriptedEngine : public Engine {
 public:
  using FirstStateCallback = std::function<void(WorkerId worker, Step step, SliceKey key,
                                                const std::vector<float>& state)>;

  struct Options {
    Clock* clock = nullptr;              // Required; outlives the engine
    std::vector<v1::TableSpec> tables;   // Required
    v1::OptimizerSpec optimizer;         // of the job: of tables without one of their own
    uint64_t slice_bytes = 0;            // Required
    int64_t steps = 0;                   // Required: number of steps of each worker
    bool has_test_values = true;         // else samples are ignored, and gradients stay 0
    float gradient_unit = 0;             // as in a Scenario, only with test values
    std::optional<UserProgram> program;  // as in a Scenario
    // Required: the compute time of the next step. A third is forward, the rest backward; all
    // layers take the same time.
    std::function<absl::Duration()> compute_time;
    uint32_t own_arrays = 0;  // of own state, only with test values
    // Gets the state of each slice before the engine's first step. Null: nobody needs it.
    FirstStateCallback on_first_state;
  };

  // A worker at one step.
  struct Turn {
    WorkerId worker;
    Step step;
  };

  explicit ScriptedEngine(Options options);

  // RunStep with these layers.
  absl::Status Compute(const Turn& turn, StepLayers& layers);

  const std::string& device_name() const override { return device_name_; }
  const std::vector<v1::TableSpec>& tables() const override { return options_.tables; }
  ParameterMirror* mirror() override { return nullptr; }
  OwnState* own_state() override { return own_state_.get(); }
  bool is_replaceable() const override { return own_state_ == nullptr; }

  absl::Status LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) override;
  absl::Status RunStep(Step step, ParameterStore& store) override;
  absl::Status RunForward(ParameterStore& store) override;
  absl::StatusOr<BatchResult> Result() override { return BatchResult(); }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  absl::Status Forward(absl::Duration time, StepLayers& layers);
  // Pushes the layer: its update of this turn, if there is one.
  absl::Status Push(int layer, const Turn& turn, StepLayers& layers) const;
  // Sets each slice of the layer to the update of this turn.
  void WriteGradients(int layer, const Turn& turn, StepLayers& layers) const;
  void WriteGradient(SliceKey key, const Turn& turn, absl::Span<float> gradient) const;
  // The element of test values of this turn.
  float TestGradient(TableId table, const Turn& turn) const;
  void TellFirstState(const Turn& turn);

  const Options options_;
  const std::string device_name_ = "a script";
  int layer_count_ = 0;
  std::deque<Turn> loaded_;
  std::unique_ptr<ScriptedState> own_state_;  // null: none
  bool has_begun_ = false;
};

// The engine of worker process `process` of the scenario, which outlives it.
std::unique_ptr<ScriptedEngine> MakeScriptedEngine(
    const Scenario& scenario, uint32_t process, Clock* clock,
    ScriptedEngine::FirstStateCallback on_first_state);

// Prepares worker process `process` of the scenario: a ScriptedEngine instead of a model, and
// samples with the turns instead of a data set. The scenario outlives both.
JobPreparer ScriptedJobPreparer(const Scenario& scenario, uint32_t process,
                                ScriptedEngine::FirstStateCallback on_first_state = nullptr);

}  // namespace capstan

#endif  // TESTS_SIMULATION_SCRIPTED_ENGINE_H_
