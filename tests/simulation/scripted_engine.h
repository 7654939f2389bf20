#ifndef TESTS_SIMULATION_SCRIPTED_ENGINE_H_
#define TESTS_SIMULATION_SCRIPTED_ENGINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "tests/simulation/scenario.h"
#include "worker/engine/engine.h"
#include "worker/runtime/job_setup.h"

namespace capstan {

// An engine without computation: it waits for its compute time, and pushes test values. A sample
// stands for one worker at one step. Its features are the worker and the step. Not thread-safe.
class ScriptedEngine : public Engine {
 public:
  struct Options {
    Clock* clock = nullptr;             // Required; outlives the engine
    std::vector<v1::TableSpec> tables;  // Required
    uint64_t slice_bytes = 0;           // Required
    int64_t steps = 0;                  // Required: number of steps of each worker
    bool has_test_values = true;        // else samples are ignored, and gradients stay 0
    // Required: the compute time of the next step. A third is forward, the rest backward; all
    // layers take the same time.
    std::function<absl::Duration()> compute_time;
  };

  explicit ScriptedEngine(Options options);

  const std::string& device_name() const override { return device_name_; }
  const std::vector<v1::TableSpec>& tables() const override { return options_.tables; }
  ParameterMirror* mirror() override { return nullptr; }

  absl::Status LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) override;
  absl::Status RunStep(Step step, ParameterStore& store) override;
  absl::Status RunForward(ParameterStore& store) override;
  absl::StatusOr<BatchResult> Result() override { return BatchResult(); }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  struct Turn {
    WorkerId worker;
    Step step;
  };

  absl::Status Forward(absl::Duration time, ParameterStore& store);
  // Sets each slice of the layer to the update of this turn.
  void WriteGradients(int layer, const Turn& turn, ParameterStore& store) const;

  const Options options_;
  const std::string device_name_ = "a script";
  int layer_count_ = 0;
  std::deque<Turn> loaded_;
};

// Prepares worker process `process` of the scenario: a ScriptedEngine instead of a model, and
// samples with the turns instead of a data set. The scenario outlives both.
JobPreparer ScriptedJobPreparer(const Scenario& scenario, uint32_t process);

}  // namespace capstan

#endif  // TESTS_SIMULATION_SCRIPTED_ENGINE_H_
