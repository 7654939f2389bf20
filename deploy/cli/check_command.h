#ifndef DEPLOY_CLI_CHECK_COMMAND_H_
#define DEPLOY_CLI_CHECK_COMMAND_H_

#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace capstan {

// `capstan check`: checks the history in a file or folder against the consistency contract, and
// prints what was checked, and what was not. `clock_skew`: by how much clocks may differ; none: as
// the history says. ABORTED, with the exchanges that prove it, when the contract was broken; other
// errors say why the history cannot be read.
absl::Status CheckCommand(const std::string& path, std::optional<absl::Duration> clock_skew,
                          std::ostream& out);

// The value of --clock_skew_ms; none when it is empty. INVALID_ARGUMENT, saying what was expected.
absl::StatusOr<std::optional<absl::Duration>> ReadClockSkew(const std::string& milliseconds);

}  // namespace capstan

#endif  // DEPLOY_CLI_CHECK_COMMAND_H_
