#ifndef TESTS_PROCESS_CHILD_RESULTS_H_
#define TESTS_PROCESS_CHILD_RESULTS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tests/process/forked_process.h"

namespace capstan {

// Starts a child with a function. If the function returns an error, ChildResults returns the error.
// The child then stays until it is killed, or receives a line.
std::unique_ptr<ForkedProcess> StartChild(
    std::function<absl::Status(ForkedProcess::Parent& parent)> run);

// The next line of each child, in order. An error as soon as one of them has failed or died.
absl::StatusOr<std::vector<std::string>> ChildResults(
    absl::Span<const std::unique_ptr<ForkedProcess>> children);

}  // namespace capstan

#endif  // TESTS_PROCESS_CHILD_RESULTS_H_
