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
#include "worker/engine/engine.h"

namespace capstan {

// An engine that computes nothing: it takes its time, and pushes test values. Each sample that it
// is given is a turn of one worker at one step, and has both as its features. Used by one thread.
class ScriptedEngine : public Engine {
 public:
  struct Options {
    Clock* clock = nullptr;             // Required; outlives the engine
    std::vector<v1::TableSpec> tables;  // Required
    uint64_t slice_bytes = 0;           // Required
    int64_t steps = 0;                  // Required: of each worker
    bool has_test_values = true;        // else samples say nothing, and gradients stay 0
    // Required: how long the next step computes. A third of it forward, the rest backward, each
    // layer as long as the others.
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
  // Makes each slice of the layer hold the update of this turn, and nothing else.
  void WriteGradients(int layer, const Turn& turn, ParameterStore& store) const;

  const Options options_;
  const std::string device_name_ = "a script";
  int layer_count_ = 0;
  std::deque<Turn> loaded_;
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SCRIPTED_ENGINE_H_
