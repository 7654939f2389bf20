#ifndef WORKER_PROGRAM_PROGRAM_ENGINE_H_
#define WORKER_PROGRAM_PROGRAM_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/parameter_store.h"
#include "worker/engine/engine.h"
#include "worker/program/program_collectives.h"
#include "worker/program/program_optimizer_state.h"
#include "worker/program/program_rows.h"
#include "worker/program/program_steps.h"
#include "worker/program/program_worker_state.h"

namespace capstan {

// The engine of a worker whose steps a program computes. The program waits for layers and pushes
// them, on threads of its own, and RunStep blocks until it has ended the step. The program's calls
// return what those of ProgramSteps do. Thread-safe.
class ProgramEngine : public Engine {
 public:
  struct Options {
    Clock* clock = nullptr;             // Required; outlives the engine
    std::vector<v1::TableSpec> tables;  // Required; their layers are 0, 1, ... without gaps
    // By table: the initial values, if this worker has them; else empty.
    std::vector<std::vector<float>> initial;
    std::vector<bool> elsewhere;  // by table: as Engine::IsElsewhere
    bool is_part = false;         // the worker is another process
    v1::JobSpec job;              // Required
    // The state with which the servers' optimizers begin; empty: they begin anew.
    std::vector<ProgramOptimizerState::Loaded> loaded;
    int64_t steps = 0;                          // of the worker; 0: End tells
    bool is_replaceable = false;                // as Engine::is_replaceable
    std::optional<v1::LocalSteps> local_steps;  // none: a step is one of the program's
    std::string device = "program";
  };

  explicit ProgramEngine(Options options);

  // The steps: when they begin and end, and how the worker ends.
  ProgramSteps& steps() { return steps_; }
  const ProgramSteps& steps() const { return steps_; }
  // The rows of its sparse tables.
  ProgramRows& rows() { return rows_; }
  // The state of the servers' optimizers.
  ProgramOptimizerState& optimizer_state() { return optimizer_state_; }
  // What the program keeps beside the parameters, for checkpoints.
  ProgramWorkerState& worker_state() { return worker_state_; }
  // What all workers do together beside the parameters.
  ProgramCollectives& collectives() { return collectives_; }

  // The program's side:

  // One span for each table, in memory that lives as long as the engine. Empty before the start.
  absl::Span<const absl::Span<const float>> values() const;
  absl::Span<const absl::Span<float>> gradients() const;

  // Waits for the layer's values of steps().current(); below 0: for those of all layers.
  absl::Status Wait(int layer, absl::Duration limit);
  // Pushes the layer's gradient, once a step. Waits for the layer before.
  absl::Status Push(int layer, absl::Duration limit);
  // The same, without a gradient.
  absl::Status PushNothing(int layer, absl::Duration limit);
  // The number of updates in the table's values, while no exchange of its layer is open. -1: there
  // is no such dense table, or all steps are done.
  int64_t UpdatesOf(TableId table);
  // The rate of the table's pushes from now on; no table: that of all tables. Finite, 0 or more.
  absl::Status SetLearningRate(std::optional<TableId> table, double learning_rate);
  // The momentum or beta1, likewise; no table: that of all tables whose optimizer has one. At least
  // 0 and, as float32, below 1. INVALID_ARGUMENT also if there is no such table, or too much for
  // local steps.
  absl::Status SetMomentum(std::optional<TableId> table, double momentum);
  // The program's local steps in the step under way, and their drift as v1::Progress::drift; the
  // latest call counts. FAILED_PRECONDITION: it has none, or the worker trains no more.
  absl::Status NoteRound(int64_t local_steps, double drift);
  // Ends the step. The servers hear of each layer and sparse table without a push that the step is
  // done there without a gradient. `loss` is the mean over the step's samples.
  absl::Status EndStep(double loss, size_t samples, absl::Duration limit);
  // There is no further step, as ProgramSteps::End.
  absl::Status End();

  // The training loop's side:

  const std::string& device_name() const override { return options_.device; }
  const std::vector<v1::TableSpec>& tables() const override { return options_.tables; }
  ParameterMirror* mirror() override { return nullptr; }
  bool is_replaceable() const override { return options_.is_replaceable; }
  const v1::LocalSteps* local_steps() const override {
    return options_.local_steps.has_value() ? &*options_.local_steps : nullptr;
  }
  bool has_program_state() const override { return !options_.is_part; }
  // Another process of the worker exchanges a table.
  bool HasElsewhere() const { return absl::c_linear_search(options_.elsewhere, true); }
  bool IsElsewhere(TableId table) const override { return options_.elsewhere[table.value()]; }
  void EnterLate() override { steps_.EnterLate(); }
  void BeginTraining(Step first_step, bool sets_initial_values, ParameterStore& store) override;
  absl::Status LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) override;
  absl::Status RunStep(Step step, ParameterStore& /*store*/) override { return steps_.Run(step); }
  absl::Status RunForward(ParameterStore& store) override { return store.WaitForAll(); }
  absl::StatusOr<BatchResult> Result() override { return steps_.Result(); }
  void LimitSteps(int64_t steps) override { steps_.LimitSteps(steps); }
  absl::Status AwaitEnd(ParameterStore& store) override;
  bool has_ended() const override { return steps_.has_ended(); }
  bool came_after_end() const override { return steps_.came_after_end(); }
  std::optional<size_t> step_samples() const override { return steps_.samples(); }
  std::optional<Round> round() const override;
  absl::Status EndBefore(Step next, ParameterStore& store) override;
  absl::Status Finish() override { return steps_.EndTraining(); }
  // An Evaluator (worker/runtime/job_setup.h): pulls the final values once the program has called
  // End, then waits for its Report.
  absl::Status Evaluate(Step steps, ParameterStore& store, v1::ReportResultRequest& result);

 private:
  absl::Status CheckLayer(int layer) const;
  absl::Status CheckTable(std::optional<TableId> table) const;
  bool HasMomentum(TableId table) const;
  absl::Status WaitUntil(int layer, absl::Time deadline);
  absl::Status EndStepUntil(double loss, size_t samples, absl::Time deadline);
  // Whoever takes this worker's place finds no slice more than one step behind another: before the
  // first push of a step, waits for the answers to all pushes of the step before.
  absl::Status AwaitStepBefore(absl::Time deadline);
  // Pushes the layer with its gradient or without, once its values have arrived.
  absl::Status PushUntil(int layer, bool has_gradient, absl::Time deadline);
  void Send(int layer, bool has_gradient, const ProgramSteps::TakenPush& push);

  Options options_;
  const int layer_count_;
  const bool is_bsp_;
  // The parts of a step are its layers, and then by table the rows of sparse tables.
  ProgramSteps steps_;
  ProgramRows rows_;
  ProgramOptimizerState optimizer_state_;
  ProgramWorkerState worker_state_;
  ProgramCollectives collectives_;

  std::vector<ProgramOptimizerState::Loaded> loaded_;  // until BeginTraining

  mutable Mutex mu_;
  std::optional<Round> noted_round_ ABSL_GUARDED_BY(mu_);  // of the step under way
  std::optional<Round> round_ ABSL_GUARDED_BY(mu_);        // of the latest step
  // Set by BeginTraining.
  std::shared_ptr<const void> memory_ ABSL_GUARDED_BY(mu_);
  std::vector<absl::Span<const float>> values_ ABSL_GUARDED_BY(mu_);
  std::vector<absl::Span<float>> gradients_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // WORKER_PROGRAM_PROGRAM_ENGINE_H_
