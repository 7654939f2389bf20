#ifndef DEPLOY_CLI_RUN_COMMAND_H_
#define DEPLOY_CLI_RUN_COMMAND_H_

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "deploy/cli/progress_display.h"

namespace capstan {

// Everything that `capstan run` needs. Pointers are borrowed.
struct RunOptions {
  // Job file; empty: the built-in job.
  std::string job_file;
  // Job flags that override its fields, such as "--seed=2".
  std::vector<std::string> job_flags;
  // What the workers compute on, as their --device says it, in turn; at least one.
  std::vector<std::string> devices = {"cpu"};
  // Folder for logs and results, made if need be; empty: runs/NAME-YYYYMMDD-HHMMSS.
  std::string run_dir;
  // File to copy the summary to; empty: none.
  std::string summary_json;
  // Folder for the workers' histories, made if need be; empty: none are recorded.
  std::string record_history;
  // Whether workers and servers write traces into the run folder.
  bool has_trace = false;
  // Path of the running program, beside which the others are found. Required.
  std::string own_path;
  // True once for each time that the person at the terminal asked to stop. Required.
  std::function<bool()> take_interrupt;
  // Size of the terminal behind `out`, if it is one. Required.
  std::function<std::optional<TerminalSize>()> terminal;
  // Required.
  std::ostream* out = nullptr;
  // Required.
  Clock* clock = nullptr;
};

// `capstan run`: returns when the job and its processes have ended. CANCELLED after an interrupt;
// other errors say why the job did not start or did not succeed.
absl::Status RunCommand(const RunOptions& options);

}  // namespace capstan

#endif  // DEPLOY_CLI_RUN_COMMAND_H_
