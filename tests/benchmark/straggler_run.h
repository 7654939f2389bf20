#ifndef TESTS_BENCHMARK_STRAGGLER_RUN_H_
#define TESTS_BENCHMARK_STRAGGLER_RUN_H_

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
#include "tests/benchmark/padded_engine.h"
#include "tests/benchmark/straggler_pattern.h"

namespace capstan {

// What one training of the study is to be.
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
  int repeat = 1;              // trainings in a row, each with the next seed; for their medians
};

// What came of it.
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

// The job: handwritten digits and plain SGD. SSP and async apply each push by itself, BSP the mean
// of a step's; so that a step of all workers moves as far in each mode, the update scale is the
// mean.
v1::JobSpec JobOf(const StragglerRunOptions& options);

// Trains in this process, a thread for each worker and server, to the end of the job.
absl::StatusOr<StragglerRunResult> RunStragglers(const StragglerRunOptions& options, Clock& clock);

// Each figure's median over `runs`, of which there is at least one and best an odd number; a target
// that was not reached counts as never. The loss over time is that of the first.
StragglerRunResult MedianOf(const std::vector<StragglerRunResult>& runs);

// Seconds since `start` and mean loss of the latest `window` records, from that many on, in the
// order of their ends.
std::vector<std::pair<double, double>> LossOverTime(
    const std::vector<std::vector<StepRecord>>& records, absl::Time start, size_t window);

// "bsp", "ssp 4", "async".
std::string ModeName(const v1::ConsistencySpec& consistency);
// The other way round; "ssp4" is read, too. INVALID_ARGUMENT for anything else.
absl::StatusOr<v1::ConsistencySpec> ModeOfName(absl::string_view name);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_STRAGGLER_RUN_H_
