#ifndef DEPLOY_LAUNCH_TERMINAL_H_
#define DEPLOY_LAUNCH_TERMINAL_H_

#include <termios.h>

#include <csignal>
#include <optional>

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace capstan {

// In characters.
struct TerminalSize {
  int rows = 24;
  int columns = 80;
};

// Size of the terminal behind a file descriptor; nothing when it is no terminal.
std::optional<TerminalSize> GetTerminalSize(int fd);

// Takes single keys from the terminal behind a file descriptor, and shows none of them. The
// destructor restores the terminal. Where there is no terminal, there are no keys. Not thread-safe.
class TerminalKeys {
 public:
  explicit TerminalKeys(int fd);
  ~TerminalKeys();
  TerminalKeys(const TerminalKeys&) = delete;
  TerminalKeys& operator=(const TerminalKeys&) = delete;

  // The next key, or 0. Does not wait.
  char Take();

 private:
  const int fd_;
  std::optional<termios> before_;  // nothing: it is no terminal
};

// Blocks SIGINT, SIGTERM and SIGHUP (unless ignored). They no longer end the process; Take returns
// them. Create it before any other thread, because threads inherit the blocked signals. Not
// thread-safe.
class InterruptSignals {
 public:
  InterruptSignals();
  ~InterruptSignals();
  InterruptSignals(const InterruptSignals&) = delete;
  InterruptSignals& operator=(const InterruptSignals&) = delete;

  // True once for each signal. Does not wait.
  bool Take();

 private:
  sigset_t signals_;
  sigset_t previous_mask_;
};

// Notices the end of an input, such as the pipe from a process on another machine. What comes
// before is thrown away. Who has begun to send something has to go on: silence is then taken for
// the end, because the network may have failed without a word. Not thread-safe.
class InputEnd {
 public:
  static constexpr int kNone = -1;  // has no end
  static constexpr absl::Duration kLongestSilence = absl::Seconds(30);

  // `clock` outlives this.
  InputEnd(int fd, Clock* clock) : fd_(fd), clock_(*clock) {}

  // True once, when the input has ended. Does not wait.
  bool Take();

 private:
  int fd_;
  Clock& clock_;
  absl::Time last_ = absl::InfiniteFuture();  // when something came
};

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_TERMINAL_H_
