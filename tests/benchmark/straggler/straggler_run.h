#ifndef TESTS_BENCHMARK_STRAGGLER_STRAGGLER_RUN_H_
#define TESTS_BENCHMARK_STRAGGLER_STRAGGLER_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/job.pb.h"
#include "tests/benchmark/straggler/padded_engine.h"
#include "tests/benchmark/straggler/straggler_pattern.h"

namespace capstan {

// One training of the study.
struct StragglerRunOptions {
  StragglerPattern::Options pattern;
  v1::ConsistencySpec consistency;
  int num_workers = 8;
  int num_servers = 2;
  int steps = 400;             // of each worker
  int batch_size = 8;          // of each worker
  double learning_rate = 0.5;  // of a step of all workers; see JobOf
  double target_loss = 0.1;    // mean over the latest batches of all workers
  uint64_t seed = 1;           // of the job
  int repeat = 1;              // trainings, each with the next seed; their medians count
};

// Figures of a training.
struct StragglerRunResult {
  double steps_per_second = 0;  // of all workers, until the last one has ended
  double idle_share = 0;        // of the workers' time: waiting for values
  double mean_staleness = 0;    // over the replies of all workers
  int64_t max_staleness = 0;
  std::optional<double> seconds_to_target;  // from the first step's beginning; none: not reached
  std::optional<double> steps_to_target;    // of a worker, on average
  double accuracy = 0;                      // of the test samples, at the end
  double seconds = 0;                       // until the last worker has ended
  // Mean loss of the latest batches of all workers, by the seconds since the beginning.
  std::vector<std::pair<double, double>> loss_over_time;
};

// The job: handwritten digits and plain SGD. BSP applies the mean of a step's pushes, SSP and async
// each push by itself. The update scale is the mean: a step of all workers then moves as far in
// each mode.
v1::JobSpec JobOf(const StragglerRunOptions& options);

// Trains in this process, a thread for each worker and server, to the end of the job.
absl::StatusOr<StragglerRunResult> RunStragglers(const StragglerRunOptions& options, Clock& clock);

// Each figure's median over `runs`: at least one, best an odd number. A run that never reached its
// target counts as infinitely late. The loss over time is the first run's.
StragglerRunResult MedianOf(const std::vector<StragglerRunResult>& runs);

// Takes the records of all workers in the order of their ends. For each from number `window` on:
// the seconds from `start` to its end, and the mean loss of the latest `window` records.
std::vector<std::pair<double, double>> LossOverTime(
    const std::vector<std::vector<StepRecord>>& records, absl::Time start, size_t window);

// "bsp", "ssp 4", "async".
std::string ModeName(const v1::ConsistencySpec& consistency);
// The mode of a name; "ssp4" is right, too. INVALID_ARGUMENT: there is no such mode.
absl::StatusOr<v1::ConsistencySpec> ModeOfName(absl::string_view name);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_STRAGGLER_STRAGGLER_RUN_H_
