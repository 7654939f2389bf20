#ifndef TESTS_BENCHMARK_STEP_TIMES_H_
#define TESTS_BENCHMARK_STEP_TIMES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace capstan {

// What each step of one process took, in seconds.
using StepTimes = std::vector<double>;

// As one line, and back; INTERNAL when the line is something else.
std::string FormatStepTimes(const StepTimes& times);
absl::StatusOr<StepTimes> ParseStepTimes(const std::string& line);

// The median over the steps of what the slowest process took, in milliseconds. All have the same
// number of steps, which is not 0; INTERNAL if not.
absl::StatusOr<double> MedianStepMilliseconds(const std::vector<StepTimes>& processes);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_STEP_TIMES_H_
