#ifndef TESTS_BENCHMARK_STEP_STEP_TIMES_H_
#define TESTS_BENCHMARK_STEP_STEP_TIMES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace capstan {

// The times of one process's steps, in seconds.
using StepTimes = std::vector<double>;

// One line, and back. INTERNAL: the line has something else.
std::string FormatStepTimes(const StepTimes& times);
absl::StatusOr<StepTimes> ParseStepTimes(const std::string& line);

// A step takes as long as its slowest process. Returns the median over the steps, in milliseconds.
// INTERNAL: there is no step, or the processes have different numbers of steps.
absl::StatusOr<double> MedianStepMilliseconds(const std::vector<StepTimes>& processes);

// Runs `command` in a shell. The last line of its output is a JSON object; returns its "step_ms".
// INTERNAL, with the command: it failed, or printed something else.
absl::StatusOr<double> StepMillisecondsOf(const std::string& command);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_STEP_STEP_TIMES_H_
