#ifndef TESTS_BENCHMARK_STEP_ALLREDUCE_LOAD_H_
#define TESTS_BENCHMARK_STEP_ALLREDUCE_LOAD_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tests/benchmark/step/step_times.h"

namespace capstan {

// Writes the gradient of worker (or rank) `worker` for any step: whole numbers. The sums and means
// of a few workers are exact, whatever the order of the additions.
void FillGradient(int worker, absl::Span<float> gradient);

// The sum over workers 0 ... num_workers - 1, as the factor for CheckPattern.
double SumOfGradients(int num_workers);

// INTERNAL with the first difference, unless `values` are `factor` times the pattern.
absl::Status CheckPattern(absl::Span<const float> values, double factor);

// Processes add up their gradients, each in its own memory.
struct AllreduceLoad {
  uint64_t bytes = 64 << 20;  // of a gradient: 1 to 2^31 - 1 float32
  int num_processes = 2;
  int steps = 20;  // timed ones
  int warmup_steps = 3;

  // INVALID_ARGUMENT, with the name of the wrong flag.
  absl::Status Check() const;
};

// Runs the steps of process `rank`: writes its gradient, waits for the others, and times
// `allreduce`. INTERNAL: a sum is wrong.
absl::StatusOr<StepTimes> RunAllreduces(const AllreduceLoad& load, int rank,
                                        absl::FunctionRef<void()> barrier,
                                        absl::FunctionRef<void(absl::Span<float>)> allreduce);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_STEP_ALLREDUCE_LOAD_H_
