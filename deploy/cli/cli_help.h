#ifndef DEPLOY_CLI_CLI_HELP_H_
#define DEPLOY_CLI_CLI_HELP_H_

#include <string>

#include "absl/types/span.h"
#include "deploy/cli/command_line.h"

namespace capstan {

// Flags of `capstan run` that are no job flags.
absl::Span<const CommandFlag> RunFlags();

// Flags of `capstan status` and of `capstan report`.
absl::Span<const CommandFlag> StatusFlags();
absl::Span<const CommandFlag> ReportFlags();

// What `capstan help`, `capstan run --help` and `capstan status --help` print.
std::string CapstanHelp();
std::string RunHelp();
std::string StatusHelp();
std::string CheckHelp();
std::string ReportHelp();

}  // namespace capstan

#endif  // DEPLOY_CLI_CLI_HELP_H_
