#include "deploy/launch/child_process.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/printable_text.h"

namespace capstan {
namespace {

// Closes a file descriptor with its own end.
class ScopedFd {
 public:
  explicit ScopedFd(int fd) : fd_(fd) {}
  ScopedFd(const ScopedFd&) = delete;
  ScopedFd& operator=(const ScopedFd&) = delete;
  ~ScopedFd() { Close(); }

  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  // Leaves it open.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Data of the child between fork and exec. Nothing may be allocated there.
struct Launch {
  pid_t parent;
  int input_fd;
  int log_fd;
  int error_fd;  // takes errno when exec fails
  char* const* argv;
  char* const* environment;
};

[[noreturn]] void ExecChild(const Launch& launch) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before prctl took effect.
  if (getppid() != launch.parent) _exit(1);
  setpgid(0, 0);
  sigset_t no_signals;
  sigemptyset(&no_signals);
  sigprocmask(SIG_SETMASK, &no_signals, nullptr);
  // What is ignored would stay so.
  signal(SIGPIPE, SIG_DFL);
  dup2(launch.input_fd, STDIN_FILENO);
  dup2(launch.log_fd, STDOUT_FILENO);
  dup2(launch.log_fd, STDERR_FILENO);
  execve(launch.argv[0], launch.argv, launch.environment);
  const int error = errno;
  if (write(launch.error_fd, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

// The environment of this process with changes as in ChildProcess::Options.
std::vector<std::string> ChangedEnvironment(const std::vector<std::string>& changes) {
  const auto name_of = [](absl::string_view variable) {
    return variable.substr(0, variable.find('='));
  };
  std::vector<std::string> changed;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool is_changed = std::any_of(
        changes.begin(), changes.end(),
        [&](const std::string& change) { return name_of(change) == name_of(*variable); });
    if (!is_changed) changed.emplace_back(*variable);
  }
  std::copy_if(changes.begin(), changes.end(), std::back_inserter(changed),
               [](const std::string& change) { return absl::StrContains(change, '='); });
  return changed;
}

// For exec: pointers to these texts, and a null.
std::vector<char*> PointersTo(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Waits for the child's exec. Returns 0 or its errno.
int ReadExecError(int fd) {
  int error = 0;
  ssize_t size;
  do {
    size = read(fd, &error, sizeof(error));
  } while (size < 0 && errno == EINTR);
  return size == sizeof(error) ? error : 0;
}

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

constexpr std::streamoff kTailBytes = 64 << 10;

std::string ReadTail(const std::string& path, std::streamoff skipped_bytes) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const std::streamoff size = in.tellg();
  in.seekg(std::max(skipped_bytes, size - kTailBytes));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The lines as a terminal shows them in the end: what follows a carriage return, such as the next
// state of a progress bar, takes the place of what was there. Without blank ones.
std::vector<absl::string_view> ShownLines(absl::string_view text) {
  std::vector<absl::string_view> shown;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripTrailingAsciiWhitespace(line);
    if (const size_t begin = line.rfind('\r'); begin != line.npos) line.remove_prefix(begin + 1);
    if (!line.empty()) shown.push_back(line);
  }
  return shown;
}

// glog writes "E20301121 02:13:34.123456  1234 file.cc:12] message". Versions before 0.6 write no
// year.
bool IsGlogLine(absl::string_view line) {
  const size_t date_end = line.find(' ');
  return (date_end == 5 || date_end == 9) && absl::StrContains("IWEF", line.substr(0, 1)) &&
         std::all_of(line.begin() + 1, line.begin() + date_end, absl::ascii_isdigit) &&
         absl::StrContains(line, "] ");
}

bool IsStackTrace(absl::string_view line) {
  return absl::StartsWith(line, "    @ ") || absl::StartsWith(line, "***");
}

bool SaysWhy(absl::string_view line) {
  if (IsStackTrace(line)) return false;
  return !IsGlogLine(line) || line[0] == 'E' || line[0] == 'F';
}

}  // namespace

std::string ChildExit::ToString() const {
  return signal != 0 ? absl::StrCat("killed by signal ", signal) : absl::StrCat("exit code ", code);
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const Options& options) {
  // Unlike a pipe, sockets take bytes without SIGPIPE.
  int input[2] = {-1, -1};
  if (options.has_input && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input) != 0) {
    return SystemError("cannot make a pair of sockets");
  }
  const ScopedFd input_reader(options.has_input      ? input[0]
                              : options.shares_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                                     : open("/dev/null", O_RDONLY | O_CLOEXEC));
  ScopedFd input_writer(input[1]);
  const ScopedFd log_fd(
      open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (log_fd.get() < 0) {
    return SystemError(absl::StrCat("cannot open the log file ", options.log_path));
  }
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) return SystemError("cannot make a pipe");
  const ScopedFd error_reader(error_pipe[0]);
  ScopedFd error_writer(error_pipe[1]);

  std::vector<std::string> words = {options.program};
  words.insert(words.end(), options.args.begin(), options.args.end());
  const std::vector<std::string> variables = ChangedEnvironment(options.environment);
  const std::vector<char*> argv = PointersTo(words), environment = PointersTo(variables);
  const Launch launch = {getpid(),           input_reader.get(), log_fd.get(),
                         error_writer.get(), argv.data(),        environment.data()};

  // Not vfork: fork runs OpenBLAS's handler, which ends its threads. They would take the signals
  // that InterruptSignals waits for.
  const pid_t pid = fork();
  if (pid < 0) return SystemError(absl::StrCat("cannot start ", options.program));
  if (pid == 0) ExecChild(launch);
  setpgid(pid, pid);
  std::unique_ptr<ChildProcess> child(new ChildProcess(pid, input_writer.Release()));
  error_writer.Close();
  if (const int error = ReadExecError(error_reader.get()); error != 0) {
    return absl::NotFoundError(
        absl::StrCat("cannot start ", options.program, ": ", std::strerror(error)));
  }
  return child;
}

ChildProcess::~ChildProcess() {
  EndInput();
  if (Poll().has_value()) return;
  kill(-pid_, SIGKILL);
  Reap(/*options=*/0);
}

std::optional<ChildExit> ChildProcess::Poll() {
  if (!exit_.has_value()) Reap(WNOHANG);
  return exit_;
}

void ChildProcess::Signal(int signal) {
  if (!Poll().has_value()) kill(pid_, signal);
}

void ChildProcess::TouchInput() {
  if (input_fd_ >= 0) send(input_fd_, "\n", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ChildProcess::EndInput() {
  if (input_fd_ >= 0) close(input_fd_);
  input_fd_ = -1;
}

bool ChildProcess::Reap(int options) {
  siginfo_t end = {};
  int error;
  do {
    error = waitid(P_PID, pid_, &end, WEXITED | WNOWAIT | options);
  } while (error != 0 && errno == EINTR);
  PCHECK(error == 0) << "waitid";
  if (end.si_pid == 0) return false;
  // Nobody else gets its number before it is reaped: this reaches what is left of its group.
  kill(-pid_, SIGKILL);
  int status = 0;
  PCHECK(waitpid(pid_, &status, 0) == pid_) << "waitpid";
  exit_.emplace();
  if (WIFSIGNALED(status)) {
    exit_->signal = WTERMSIG(status);
  } else {
    exit_->code = WEXITSTATUS(status);
  }
  return true;
}

std::vector<std::string> LastLines(const std::string& log_path, int64_t skipped_bytes,
                                   size_t count) {
  const std::string tail = ReadTail(log_path, skipped_bytes);
  const std::vector<absl::string_view> lines = ShownLines(tail);
  std::vector<std::string> last;
  for (size_t i = lines.size() - std::min(count, lines.size()); i < lines.size(); ++i) {
    last.push_back(CutText(PrintableText(lines[i])));
  }
  return last;
}

std::string LastErrorLine(const std::string& log_path, int64_t skipped_bytes) {
  const std::string tail = ReadTail(log_path, skipped_bytes);
  const std::vector<absl::string_view> lines = ShownLines(tail);
  const auto found = std::find_if(lines.rbegin(), lines.rend(), SaysWhy);
  if (found == lines.rend()) return "no error in its log";
  absl::string_view line = *found;
  if (IsGlogLine(line)) line.remove_prefix(line.find("] ") + 2);
  return CutText(PrintableText(absl::StripAsciiWhitespace(line)));
}

}  // namespace capstan
