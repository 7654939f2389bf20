#ifndef COMMON_JOB_TEST_VALUES_H_
#define COMMON_JOB_TEST_VALUES_H_

#include <cstddef>
#include <cstdint>

#include "common/base/ids.h"

namespace capstan {

// Test values show the updates in them. Each slice has one element for each (worker, step), 0 at
// first. The update of that worker and step moves this element by kTestUpdate. With SGD at learning
// rate 1, all values are exact in float32. A multiple of kTestUpdate is the number of times the
// update is in. A fraction gives the size of its mean, or the divisor of its learning rate.

// Divisible by 1 ... 16, the numbers of workers of a mean.
constexpr float kTestUpdate = 720720;
constexpr uint32_t kMaxTestWorkers = 16;
// Most elements of a slice whose changes are recorded.
constexpr uint64_t kMaxTestElements = uint64_t{1} << 20;

// The element of a slice for the update of `worker` at `step`.
constexpr size_t TestElement(WorkerId worker, Step step, int64_t steps) {
  return static_cast<size_t>(worker.value() * steps + step.value());
}

}  // namespace capstan

#endif  // COMMON_JOB_TEST_VALUES_H_
