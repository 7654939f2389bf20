#ifndef DEPLOY_LAUNCH_CHILD_PROCESS_H_
#define DEPLOY_LAUNCH_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace capstan {

// How a process ended.
struct ChildExit {
  int code = 0;    // valid if `signal` is 0
  int signal = 0;  // 0: it ended by itself

  bool ok() const { return code == 0 && signal == 0; }
  // "exit code 3", or "killed by signal 9".
  std::string ToString() const;
};

// A running program. It ends with this object, and with this process even after a crash. It has its
// own process group: Ctrl-C at the terminal does not reach it, and what it leaves running in the
// group ends with it. Not thread-safe. Start it from a long-lived thread: the kernel kills it at
// the end of that thread.
class ChildProcess {
 public:
  struct Options {
    // Path of the program. Required.
    std::string program;
    // Without the program's own name.
    std::vector<std::string> args;
    // Its standard output and standard error are appended to this file. Required.
    std::string log_path;
    // Its standard input ends with EndInput, or with this process. Only TouchInput writes to it.
    // False: it is empty.
    bool has_input = false;
    // Its standard input is that of this process. Not together with has_input.
    bool shares_input = false;
    // "NAME=VALUE" sets a variable of its environment, "NAME" removes one. The others are those of
    // this process.
    std::vector<std::string> environment = {};
  };

  // NOT_FOUND when the program cannot be started, UNAVAILABLE when the log cannot be opened or the
  // system has no room for a process.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const Options& options);
  // Kills its process group, and waits for its end.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // How it ended; nothing while it runs. Does not wait.
  std::optional<ChildExit> Poll();
  // Sends it a signal, unless it has ended.
  void Signal(int signal);
  // Writes a line without text to its standard input, if there is room.
  void TouchInput();
  // Ends its standard input.
  void EndInput();

 private:
  ChildProcess(pid_t pid, int input_fd) : pid_(pid), input_fd_(input_fd) {}
  // False: it still runs. That needs WNOHANG in `options`.
  bool Reap(int options);

  const pid_t pid_;
  int input_fd_;  // -1: its standard input has ended
  std::optional<ChildExit> exit_;
};

// The last lines in a process's log that are not blank, at most `count`, as a terminal shows them:
// of a progress bar, the last state. Long lines are cut. Skips the first `skipped_bytes`, and reads
// the last 64 KiB.
std::vector<std::string> LastLines(const std::string& log_path, int64_t skipped_bytes,
                                   size_t count);

// The last error in a process's log, without glog's prefix. Skips stack traces, glog's INFO and
// WARNING lines, and the first `skipped_bytes`. Reads the last 64 KiB. As LastLines shows it. "no
// error in its log" when there is none.
std::string LastErrorLine(const std::string& log_path, int64_t skipped_bytes = 0);

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_CHILD_PROCESS_H_
