#ifndef TESTS_SIMULATION_SCRIPTED_PROGRAM_H_
#define TESTS_SIMULATION_SCRIPTED_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "tests/simulation/local_rounds.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/scripted_engine.h"
#include "worker/program/program_engine.h"
#include "worker/runtime/job_setup.h"

namespace capstan {

// A program that calls what is behind the C interface, on a thread of its own. It computes what a
// ScriptedEngine computes. Some programs announce the number of their steps, others tell it at the
// end. Guarded by the baton of the simulation.
class ScriptedProgram : public std::enable_shared_from_this<ScriptedProgram> {
 public:
  using Spawner = std::function<void(absl::AnyInvocable<void()> body)>;
  // The worker begins at `step`, and its state in the checkpoint is that of `of_step`; -1: there is
  // none.
  using StateCallback = std::function<void(Step step, int64_t of_step)>;
  // The operation `number` at `step` has combined parts of these workers: a sum of 2^worker.
  using ReducedCallback = std::function<void(Step step, int number, int64_t workers)>;

  // These rows were pulled at `step`.
  using RowsCallback = std::function<void(Step step, const std::vector<uint64_t>& keys,
                                          const std::vector<float>& rows)>;

  // `scenario` and the clocks outlive the program; `spawn` starts its thread. `second` is the clock
  // of the worker's second process, if it has two: its program is this thread, too, as all ranks
  // wait for each other. In a job with
  // has_known_end `on_rows` gets all rows that are pulled. `on_reduced` gets the
  // result of each collective operation, and `on_state` hears of the state with which the worker
  // goes on.
  ScriptedProgram(const Scenario& scenario, uint32_t process, Clock* clock, Clock* second,
                  Spawner spawn, RowsCallback on_rows, ReducedCallback on_reduced,
                  StateCallback on_state);

  // The setup of its worker. The program begins.
  JobSetup Start();
  // That of the second process.
  JobSetup SecondSetup() { return SetupOf(second_); }
  // As Worker::Options::on_registered.
  void SetWorker(WorkerId worker) { worker_ = worker; }
  // What Worker::Run has returned.
  void SetOutcome(absl::Status outcome) { engine_->steps().SetOutcome(std::move(outcome)); }
  void SetSecondOutcome(absl::Status outcome) { second_->steps().SetOutcome(std::move(outcome)); }
  // The hash of the final parameters, if the worker is two processes and evaluates.
  std::optional<uint64_t> parameters_xxh3() const { return parameters_xxh3_; }

 private:
  std::shared_ptr<ProgramEngine> MakeEngine(Clock* clock, bool is_second) const;
  static JobSetup SetupOf(const std::shared_ptr<ProgramEngine>& engine);
  absl::Status Run();
  // There is no further step. Returns whether the worker evaluates.
  absl::StatusOr<bool> Finish();
  // Pulls the rows of the sparse table, and pushes the update of this step, if there is one.
  absl::Status TrainRows(Step step);
  absl::Status TrainKnownRows(Step step);
  absl::Status SetRateOfRows(Step step);
  // Whether the job has no further step, as all agree.
  absl::StatusOr<bool> HasEnded();
  // Trains until this worker's batches end, then does the others' steps without a gradient.
  absl::Status TrainAll();
  absl::Status TrainStep();
  // Operations before the step's gradients, or after them.
  absl::Status Reduce(Step step, int first);
  // The worker's own state is that of this step from now on.
  absl::Status PutState(Step step);
  void TellState();
  // Takes the parameters of tables whose optimizer the program runs.
  absl::Status TakeParameters();
  // Gives these to the servers, if a checkpoint waits for them, or if they are the last ones.
  absl::Status KeepParameters(bool is_last);
  // Steps their optimizer with the means of this step.
  absl::Status StepParameters();
  absl::StatusOr<bool> IsStateDue();
  absl::Status Pull(Step step, const std::vector<uint64_t>& keys);
  TableId sparse_table() const {
    return TableId(static_cast<uint32_t>(scenario_.tables.size() - 1));
  }

  const Scenario& scenario_;
  Clock* const clock_;
  const Spawner spawn_;
  const RowsCallback on_rows_;
  const ReducedCallback on_reduced_;
  const StateCallback on_state_;
  const std::shared_ptr<ScriptedEngine> script_;
  std::shared_ptr<ProgramEngine> engine_;
  std::shared_ptr<ProgramEngine> second_;  // null: the worker is one process
  std::optional<uint64_t> parameters_xxh3_;
  std::unique_ptr<LocalRounds> rounds_;  // null: the program has no local steps
  WorkerId worker_;
  struct Parameters {
    std::vector<float> values;
    int64_t updates = 0;  // that are in them, as the library counts
  };
  bool is_first_ = true;  // the process has not come in the place of another one
  std::map<TableId, Parameters> parameters_;  // of tables whose optimizer the program runs
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SCRIPTED_PROGRAM_H_
