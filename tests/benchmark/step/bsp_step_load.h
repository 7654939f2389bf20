#ifndef TESTS_BENCHMARK_STEP_BSP_STEP_LOAD_H_
#define TESTS_BENCHMARK_STEP_BSP_STEP_LOAD_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "tests/benchmark/common/benchmark_job.h"
#include "tests/benchmark/step/step_times.h"
#include "worker/client/parameter_client.h"

namespace capstan {

// Steps of a BSP job. Every worker pushes the gradient of the whole table and gets the new values.
struct BspStepLoad {
  uint64_t bytes = 64 << 20;  // of the table, a multiple of 4
  uint64_t slice_bytes = 1 << 20;
  uint64_t credit_bytes = 4 << 20;  // most bytes of a worker on their way to servers
  int num_workers = 2;
  int num_servers = 1;
  int steps = 20;  // timed ones
  int warmup_steps = 3;
  bool has_metrics = true;  // the worker's scheduler measures times

  BenchmarkJob Job() const;
};

// Runs the steps of one worker: writes its gradient, waits for the other workers, and times from
// the push until all values are in place. INTERNAL: a value is wrong. Otherwise the first error of
// an exchange.
absl::StatusOr<StepTimes> RunBspSteps(const BspStepLoad& load, int worker, ParameterClient* client,
                                      absl::FunctionRef<void()> barrier, Clock* clock);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_STEP_BSP_STEP_LOAD_H_
