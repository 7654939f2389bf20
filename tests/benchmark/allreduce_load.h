#ifndef TESTS_BENCHMARK_ALLREDUCE_LOAD_H_
#define TESTS_BENCHMARK_ALLREDUCE_LOAD_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tests/benchmark/step_times.h"

namespace capstan {

// Steps in which processes add up their gradients, each in its own memory.
struct AllreduceLoad {
  uint64_t bytes = 64 << 20;  // of a gradient: 1 to 2^31 - 1 float32
  int num_processes = 2;
  int steps = 20;  // that are timed
  int warmup_steps = 3;

  // INVALID_ARGUMENT, naming the flag that is wrong.
  absl::Status Check() const;
};

// Runs the steps of process `rank`: writes its gradient, waits for the others, and times
// `allreduce`. INTERNAL when a sum is wrong.
absl::StatusOr<StepTimes> RunAllreduces(const AllreduceLoad& load, int rank,
                                        absl::FunctionRef<void()> barrier,
                                        absl::FunctionRef<void(absl::Span<float>)> allreduce);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_ALLREDUCE_LOAD_H_
