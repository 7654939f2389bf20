#ifndef DEPLOY_CLI_COMMAND_LINE_H_
#define DEPLOY_CLI_COMMAND_LINE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace capstan {

// A flag of a command that is no job flag; its value is text.
struct CommandFlag {
  absl::string_view name;   // without dashes
  absl::string_view value;  // what help calls the value; empty: it is true when it is there
  absl::string_view help;   // with the default
};

// Reads "--name=value" and "--name value", or "--name" and "--name=false" of those without a value,
// which is "true" or "false" then; the last one wins. INVALID_ARGUMENT names what is no such flag,
// and what is expected.
absl::StatusOr<std::map<std::string, std::string>> ParseCommandFlags(
    const std::vector<std::string>& args, absl::Span<const CommandFlag> flags);

// Two lines a flag.
std::string CommandFlagsHelp(absl::Span<const CommandFlag> flags);

// Whether "--help" or "-h" is among `args`.
bool AsksForHelp(const std::vector<std::string>& args);

}  // namespace capstan

#endif  // DEPLOY_CLI_COMMAND_LINE_H_
