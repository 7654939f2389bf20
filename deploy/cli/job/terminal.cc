#include "deploy/cli/job/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <ctime>

namespace capstan {

std::optional<TerminalSize> GetTerminalSize(int fd) {
  if (!isatty(fd)) return std::nullopt;
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return TerminalSize();
  return TerminalSize{size.ws_row, size.ws_col};
}

InterruptSignals::InterruptSignals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  // nohup ignores SIGHUP on purpose.
  struct sigaction hangup;
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&signals_, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals_, &previous_mask_);
}

InterruptSignals::~InterruptSignals() {
  while (Take()) {
  }
  pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
}

bool InterruptSignals::Take() {
  const timespec no_time = {};
  return sigtimedwait(&signals_, nullptr, &no_time) > 0;
}

}  // namespace capstan
