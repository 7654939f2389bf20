#ifndef TESTS_SIMULATION_IN_PARTS_H_
#define TESTS_SIMULATION_IN_PARTS_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace capstan {

// A program that waits in parts can do something else meanwhile, as Python does.
inline constexpr absl::Duration kPart = absl::Milliseconds(100);

// Calls it again until it ends in time.
inline absl::Status InParts(absl::FunctionRef<absl::Status()> call) {
  while (true) {
    absl::Status status = call();
    if (!absl::IsDeadlineExceeded(status)) return status;
  }
}

}  // namespace capstan

#endif  // TESTS_SIMULATION_IN_PARTS_H_
