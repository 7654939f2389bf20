#ifndef DEPLOY_LAUNCH_HOSTS_REMOTE_HOSTS_H_
#define DEPLOY_LAUNCH_HOSTS_REMOTE_HOSTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "deploy/launch/child_process.h"
#include "deploy/launch/hosts/host_list.h"

namespace capstan {

// `text` as one word of a POSIX shell.
std::string ShellWord(absl::string_view text);

// A host's log is NAME with this ending.
inline constexpr absl::string_view kSshLogEnding = ".ssh.log";

// Defines `answer TEXT` for a script, which gives the answer of a host.
inline constexpr absl::string_view kDefineAnswer =
    "answer() { printf '\\ncapstan answers: %s\\n' \"$1\"; }; ";

// Shell commands that set $cache on a host: its folder for copied programs and for jobs. It must
// belong to the user, because what is in it is run.
inline constexpr absl::string_view kFindCache =
    "cache=\"${XDG_CACHE_HOME:-$HOME/.cache}/capstan\"; "
    "if [ -e \"$cache\" ] && [ ! -O \"$cache\" ]; then "
    "echo \"expected $cache to belong to this user; remove it\" >&2; exit 1; fi; ";

// Runs commands of the shell on several hosts, by ssh. What they print is in a log for each host.
// A host may be slow or broken, or lie: what it prints is bounded. Not thread-safe.
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
    // The hosts that do not end within this time are named.
    absl::Duration notice_time = absl::Seconds(10);
  };

  // What hosts are to do.
  struct Task {
    // For messages, such as "copy the programs".
    std::string what;
    // Commands of the POSIX shell, on the host. They call `answer`.
    std::function<std::string(int host)> script;
    // Commands of the shell, here, if the host's input or output comes from here or goes to here.
    // "$@" runs the script: as in 'tar -c data | "$@"'. They may call `answer`, too.
    std::function<std::string(int host)> here;
    // A host that takes longer fails.
    absl::Duration time_limit = absl::Minutes(1);
  };

  explicit RemoteHosts(Options options);

  const std::vector<Host>& hosts() const { return options_.hosts; }
  int size() const { return static_cast<int>(options_.hosts.size()); }
  std::string LogPath(int host) const;
  // The indices of all hosts.
  std::vector<int> All() const;

  // Runs a task on each host of `which`, on all at the same time, and waits for them. Returns their
  // answers, in the order of `which`. UNAVAILABLE names the hosts that failed or did not answer.
  // CANCELLED after an interrupt.
  absl::StatusOr<std::vector<std::string>> RunAll(const Task& task, const std::vector<int>& which);

  // Starts a script on the host. Its standard input ends with EndInput of the result.
  absl::StatusOr<std::unique_ptr<ChildProcess>> Start(int host, const std::string& script);

 private:
  struct Running;

  absl::StatusOr<std::unique_ptr<ChildProcess>> StartShell(int host, const std::string& here,
                                                           const std::string& script,
                                                           bool has_input);
  // False: it is more than a host may print.
  bool ReadOutput(bool at_end, Running* running);
  // Sets what has become of it, if it has ended or must end.
  void Look(const Task& task, absl::Time start, Running* running);
  void TellWhoIsLate(const Task& task, const std::vector<Running>& all);

  const Options options_;
};

// New lines at the end of a file that grows. Not thread-safe.
class LineFollower {
 public:
  // Begins at the present end of the file.
  explicit LineFollower(std::string path);

  // The lines since the last call, up to a bound; the next call has more. `at_end`: also a last
  // line without its end. A very long line is cut.
  std::vector<std::string> Take(bool at_end);
  // Bytes of the file up to the last line.
  int64_t position() const { return position_; }

 private:
  const std::string path_;
  int64_t position_ = 0;
};

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_HOSTS_REMOTE_HOSTS_H_
