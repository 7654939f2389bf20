#ifndef TESTS_BENCHMARK_BASELINE_PROGRAM_H_
#define TESTS_BENCHMARK_BASELINE_PROGRAM_H_

#include <string>

#include "absl/status/statusor.h"

namespace capstan {

// Runs `command` in a shell, and returns "step_ms" of the JSON object in the last line that it
// prints. INTERNAL, with the command, when it fails or prints something else.
absl::StatusOr<double> StepMillisecondsOf(const std::string& command);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_BASELINE_PROGRAM_H_
