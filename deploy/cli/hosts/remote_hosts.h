#ifndef DEPLOY_CLI_HOSTS_REMOTE_HOSTS_H_
#define DEPLOY_CLI_HOSTS_REMOTE_HOSTS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/clock.h"
#include "deploy/cli/hosts/host_list.h"
#include "deploy/cli/job/child_process.h"

namespace capstan {

// `text` as one word of a POSIX shell.
std::string ShellWord(absl::string_view text);

// Runs commands of the shell on several hosts, by ssh. What they print is in a log for each host.
// Not thread-safe.
class RemoteHosts {
 public:
  struct Options {
    // At least one. Required.
    std::vector<Host> hosts;
    // The program that reaches a host, and its flags.
    std::vector<std::string> ssh = {"ssh"};
    // Existing folder for the logs. Those of an earlier run are replaced. Required.
    std::string log_dir;
    // Gets a line for each host that fails. Required.
    std::function<void(const std::string&)> tell;
    // True once for each interrupt from the terminal. Required.
    std::function<bool()> take_interrupt;
    // Required.
    Clock* clock = nullptr;
  };

  // What to run for a host.
  struct Command {
    // Commands of the POSIX shell, on the host. A line "capstan: TEXT" of their output is the
    // answer.
    std::string script;
    // Commands of the shell, here. "$@" runs the script: as in 'tar -c data | "$@"'.
    std::string here = "exec \"$@\"";
  };

  explicit RemoteHosts(Options options);

  const std::vector<Host>& hosts() const { return options_.hosts; }
  int size() const { return static_cast<int>(options_.hosts.size()); }
  std::string LogPath(int host) const;

  // Runs a command for each host of `which`, all at the same time, and waits for them. Returns
  // their answers, in the order of `which`. UNAVAILABLE names the hosts that failed or did not
  // answer; `what` says what they were to do. CANCELLED after an interrupt.
  absl::StatusOr<std::vector<std::string>> RunAll(
      absl::string_view what, const std::vector<int>& which,
      const std::function<Command(int host)>& command_of);

  // Starts a script on the host. Its standard input ends with EndInput of the result.
  absl::StatusOr<std::unique_ptr<ChildProcess>> Start(int host, const std::string& script);

 private:
  absl::StatusOr<std::unique_ptr<ChildProcess>> StartCommand(int host, const Command& command,
                                                             bool has_input);

  const Options options_;
};

// New whole lines at the end of a file that grows. Not thread-safe.
class LineFollower {
 public:
  // Begins at the present end of the file.
  explicit LineFollower(std::string path);

  // The lines since the last call. `at_end`: also a last line without its end.
  std::vector<std::string> Take(bool at_end);

 private:
  const std::string path_;
  int64_t position_ = 0;  // in bytes
};

}  // namespace capstan

#endif  // DEPLOY_CLI_HOSTS_REMOTE_HOSTS_H_
