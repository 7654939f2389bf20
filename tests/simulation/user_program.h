#ifndef TESTS_SIMULATION_USER_PROGRAM_H_
#define TESTS_SIMULATION_USER_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/tensor/slicing.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// An element of a worker's own copy of the parameters, between two exchanges.
struct LocalElement {
  float value = 0;
  float momentum = 0;  // of the worker's own optimizer
};

// What workers do that run a program of the user's: worker 0 sends the initial values, learning
// rates and momenta change from step to step, and some layers have no gradient in some steps. The
// same in all lives of a job.
struct UserProgram {
  uint64_t seed = 0;
  // Share of the steps of a layer in which nobody has a gradient, and of the others in which one
  // worker has none.
  double idle = 0;
  double without_gradient = 0;

  // By worker: the step from which on it has no gradient, as it has no more batches. It joins.
  // Empty: all have gradients until the last step.
  std::vector<int64_t> ends;
  bool reduces = false;  // the workers of a BSP job do collective operations
  // Steps that the workers have announced beyond those that they do. Before each step all agree
  // whether to end, or all have joined.
  int64_t steps_left_out = 0;
  bool rank_0_stops = false;  // the flags of the others are never true
  absl::Duration validation;  // between a worker's last step and its end

  // Learning rates are powers of two, and so are momenta or 0. Pushes before this step have none.
  bool has_learning_rates = false;
  Step first_rate;
  // Each worker has others, and some are 0. Otherwise gradients are divided by them, so that values
  // reveal updates.
  bool has_rates_by_worker = false;

  // Initial values are multiples of it, from 1 to 7.
  float initial_unit = 0;
  absl::Duration initial_delay;        // of worker 0, before it sends them
  absl::Duration initial_again_after;  // worker 0 sends them once more; 0: it does not
  bool has_intruder = false;           // worker 1 sends some, too
  // The first process of worker 0 dies this long after its first pull; infinite: it does not.
  // Another one may start after a further time; 0: none does.
  absl::Duration worker_0_lives = absl::InfiniteDuration();
  absl::Duration worker_0_replaced_after;

  // A step is a round of local steps (worker/python/capstan/_torch_local_steps.py). Then every
  // layer has a gradient in each step.
  std::optional<v1::LocalSteps> local_steps;
  // Each worker is two processes, as the ranks of a sharded model: every second table is of the
  // second one.
  bool has_two_processes = false;
  bool IsOfSecond(uint32_t table) const { return has_two_processes && table % 2 == 1; }

  // Whether the worker has a batch for this step.
  bool HasBatch(WorkerId worker, Step step) const {
    return ends.empty() || step < Step(ends[worker.value()]);
  }
  bool HasGradient(WorkerId worker, Step step, uint32_t layer) const;
  // None: the push carries none.
  std::optional<double> LearningRate(WorkerId worker, Step step, TableId table) const;
  // The same of the momentum. Only tables whose optimizer has one are asked for.
  std::optional<double> Momentum(WorkerId worker, Step step, TableId table) const;
  // Of an element of a slice.
  float InitialValue(SliceKey key, size_t element) const;

  // How many local steps the worker does in this round. By time it is another number each time.
  int64_t LocalStepsOf(WorkerId worker, Step round) const;
  // Which of the round's fragments a layer belongs to.
  uint32_t FragmentOf(uint32_t layer, size_t layers) const {
    return static_cast<uint32_t>(layer * local_steps->fragments() / layers);
  }
  // The local step of this number, from 1, changes an element of a table: momentum SGD toward a
  // target that is another one each time.
  static void StepLocally(WorkerId worker, Step round, int64_t number, TableId table, size_t index,
                          LocalElement& element);
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_USER_PROGRAM_H_
