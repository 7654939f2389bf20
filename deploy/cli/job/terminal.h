#ifndef DEPLOY_CLI_JOB_TERMINAL_H_
#define DEPLOY_CLI_JOB_TERMINAL_H_

#include <csignal>
#include <optional>

namespace capstan {

// In characters.
struct TerminalSize {
  int rows = 24;
  int columns = 80;
};

// Size of the terminal behind a file descriptor; nothing when it is no terminal.
std::optional<TerminalSize> GetTerminalSize(int fd);

// Holds back SIGINT, SIGTERM and SIGHUP (unless ignored), so that they are asked for instead of
// ending the process. Create it before any thread, so that all threads hold them back. Not
// thread-safe.
class InterruptSignals {
 public:
  InterruptSignals();
  ~InterruptSignals();
  InterruptSignals(const InterruptSignals&) = delete;
  InterruptSignals& operator=(const InterruptSignals&) = delete;

  // True once for each signal that has come. Does not wait.
  bool Take();

 private:
  sigset_t signals_;
  sigset_t previous_mask_;
};

}  // namespace capstan

#endif  // DEPLOY_CLI_JOB_TERMINAL_H_
