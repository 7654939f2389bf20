#ifndef DEPLOY_CLI_COMMAND_LINE_H_
#define DEPLOY_CLI_COMMAND_LINE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace capstan {

// A flag of a command, besides the job flags. Its value is text.
struct CommandFlag {
  absl::string_view name;        // without dashes
  absl::string_view value;       // the value's name in help; empty: the flag is a bool
  absl::string_view help;        // with the default
  absl::string_view group = "";  // its heading in help; empty: none
};

// The exit code of a wrong command line.
inline constexpr int kWrongCommandLine = 2;

// Prints "COMMAND: MESSAGE" to standard error, and returns `exit_code`.
int Fail(absl::string_view command, const absl::Status& status, int exit_code);

// Removes the first of `args` and returns it. INVALID_ARGUMENT: there is none, or it is a flag.
// `what` is the help's word for it.
absl::StatusOr<std::string> TakeArgument(absl::string_view what, std::vector<std::string>& args);

// If the first of `args` is no flag, it is the folder of a run: puts --coordinator=HOST:PORT, the
// address of its job's coordinator, in its place. INVALID_ARGUMENT: no run has written to the
// folder, or --coordinator is given, too.
absl::Status NameCoordinator(std::vector<std::string>& args);

// Reads "--name=value" and "--name value". A bool flag is "--name" or "--name=false"; its value is
// "true" or "false". The last one wins. INVALID_ARGUMENT names the wrong argument, the nearest
// flag, also among the job flags if the command takes them (they have been read before), and the
// expected flags.
absl::StatusOr<std::map<std::string, std::string>> ParseCommandFlags(
    const std::vector<std::string>& args, absl::Span<const CommandFlag> flags,
    bool takes_job_flags = false);

// The help on these flags, under their headings, and on --flagfile and --help.
std::string CommandFlagsHelp(absl::Span<const CommandFlag> flags);

}  // namespace capstan

#endif  // DEPLOY_CLI_COMMAND_LINE_H_
