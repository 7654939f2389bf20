#include "deploy/launch/terminal.h"

#include <poll.h>
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

TerminalKeys::TerminalKeys(int fd) : fd_(fd) {
  termios settings = {};
  if (tcgetattr(fd_, &settings) != 0) return;
  before_ = settings;
  settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  // These keys would leave the terminal like this.
  settings.c_cc[VSUSP] = settings.c_cc[VQUIT] = _POSIX_VDISABLE;
  tcsetattr(fd_, TCSANOW, &settings);
}

TerminalKeys::~TerminalKeys() {
  if (before_.has_value()) tcsetattr(fd_, TCSANOW, &*before_);
}

char TerminalKeys::Take() {
  pollfd keys = {fd_, POLLIN, 0};
  char key = 0;
  if (!before_.has_value() || poll(&keys, 1, /*timeout=*/0) <= 0) return 0;
  return read(fd_, &key, 1) == 1 ? key : 0;
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

bool InputEnd::Take() {
  if (fd_ == kNone) return false;
  pollfd input = {fd_, POLLIN, 0};
  bool has_ended = false;
  while (!has_ended && poll(&input, 1, /*timeout=*/0) > 0) {
    char thrown_away[4096];
    has_ended = read(fd_, thrown_away, sizeof(thrown_away)) <= 0;
    last_ = clock_.Now();
  }
  has_ended = has_ended || clock_.Now() > last_ + kLongestSilence;
  if (has_ended) fd_ = kNone;
  return has_ended;
}

}  // namespace capstan
