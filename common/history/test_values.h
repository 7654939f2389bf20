#ifndef COMMON_HISTORY_TEST_VALUES_H_
#define COMMON_HISTORY_TEST_VALUES_H_

#include <cstddef>
#include <cstdint>

#include "common/base/ids.h"

namespace capstan {

// Test values tell which updates they contain. Each slice has an element for each (worker, step),
// 0 at first, and the update of that step moves it by kTestUpdate, and no other element. With SGD
// at learning rate 1 all is exact in float32: a multiple of it says how often the update is in, and
// a part of it in a mean of how many, or by what its learning rate was divided.

// Divisible by 1 ... 16, the numbers of workers of a mean.
constexpr float kTestUpdate = 720720;
constexpr uint32_t kMaxTestWorkers = 16;

// Which element of a slice belongs to the update of `worker` at `step`.
constexpr size_t TestElement(WorkerId worker, Step step, int64_t steps) {
  return static_cast<size_t>(worker.value() * steps + step.value());
}

}  // namespace capstan

#endif  // COMMON_HISTORY_TEST_VALUES_H_
