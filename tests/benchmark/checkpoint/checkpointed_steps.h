#ifndef TESTS_BENCHMARK_CHECKPOINT_CHECKPOINTED_STEPS_H_
#define TESTS_BENCHMARK_CHECKPOINT_CHECKPOINTED_STEPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "tests/benchmark/common/benchmark_figures.h"

namespace capstan {

// A BSP job of which checkpoints are written again and again. A network is replayed at its true
// size under Adam: devices that compute nothing take their time.
struct CheckpointedSteps {
  std::string dir;         // the folder of checkpoints
  std::string layers;      // of the network, as ReplaySpec.layers
  uint64_t scale = 1;      // divides the network's tensors
  absl::Duration compute;  // of a step
  int num_workers = 2;     // 1 server
  int steps = 0;           // of a worker
  int steps_between = 10;  // from one complete checkpoint to the next order
};

// Runs the job in this process, over gRPC. Figures of the steps of a worker:
//   step_ms               median while no checkpoint was written
//   step_slowdown         the median while one was written, divided by step_ms
//   mean_step_slowdown    the mean of a checkpoint's steps, divided by the mean of the steps
//   before;
//                         the median over checkpoints
//   slowest_step_slowdown the slowest of a checkpoint's steps, divided by step_ms; the median over
//                         checkpoints
//   steps_while_writing   mean number of a checkpoint's steps
//   checkpoints           complete ones
//   memory_growth         how much the memory of this process has grown since the first order, in
//                         bytes of a checkpoint
absl::StatusOr<BenchmarkFigures> MeasureSteps(const CheckpointedSteps& job, Clock* clock);

// From the order of a checkpoint until it was complete.
struct WritingTime {
  absl::Time begin;
  absl::Time end;
};

// The first five figures. `begins` are those of all steps, in order. A step belongs to a checkpoint
// if they overlap. FAILED_PRECONDITION: there is no checkpoint, or no step without one.
absl::StatusOr<BenchmarkFigures> StepFigures(const std::vector<absl::Time>& begins,
                                             const std::vector<WritingTime>& checkpoints);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_CHECKPOINT_CHECKPOINTED_STEPS_H_
