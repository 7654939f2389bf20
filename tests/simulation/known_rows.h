#ifndef TESTS_SIMULATION_KNOWN_ROWS_H_
#define TESTS_SIMULATION_KNOWN_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "tests/simulation/scenario.h"

namespace capstan {

// The sparse table of a job with has_known_end: each step of a worker has some of its keys, and
// gradients whose sum depends on the order of the workers. They are the same in each life of the
// job: drawn from the job's seed, not from that of the life.

// All keys.
std::vector<uint64_t> AllRowKeys();

// Those of a step, each once; the same number in each step.
std::vector<uint64_t> RowKeysOf(const Scenario& scenario, WorkerId worker, Step step);

// The gradients of these keys, each as long as a row.
std::vector<float> RowGradientsOf(const Scenario& scenario, WorkerId worker, Step step,
                                  absl::Span<const uint64_t> keys);

// The rows of these keys when `step` begins, or at the end if the job has no such step: SGD,
// applied to the mean of each step in float32 as the servers compute, with the learning rates of
// worker 0.
std::vector<float> KnownRows(const Scenario& scenario, Step step, absl::Span<const uint64_t> keys);

}  // namespace capstan

#endif  // TESTS_SIMULATION_KNOWN_ROWS_H_
