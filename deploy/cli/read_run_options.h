#ifndef DEPLOY_CLI_READ_RUN_OPTIONS_H_
#define DEPLOY_CLI_READ_RUN_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/cli/commands.h"

namespace capstan {

// What the command line of `capstan run` says.
struct RunLine {
  // The process gives the rest: take_interrupt, terminal, out and clock.
  RunOptions options;
  bool ends_with_stdin = false;  // the end of the standard input is an interrupt
};

// Every error is one of the command line. `own_path` is the running program's.
absl::StatusOr<RunLine> ReadRunOptions(const std::vector<std::string>& args,
                                       const std::string& own_path);

}  // namespace capstan

#endif  // DEPLOY_CLI_READ_RUN_OPTIONS_H_
