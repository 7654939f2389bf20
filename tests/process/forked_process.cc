#include "tests/process/forked_process.h"

#include <glog/logging.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <utility>

namespace capstan {

std::string ForkedProcess::Parent::ReadLine() {
  std::string line;
  char c;
  while (read(in_, &c, 1) == 1 && c != '\n') line.push_back(c);
  return line;
}

void ForkedProcess::Parent::WriteLine(const std::string& line) {
  const std::string with_end = line + "\n";
  CHECK_EQ(write(out_, with_end.data(), with_end.size()), static_cast<ssize_t>(with_end.size()));
}

ForkedProcess::ForkedProcess(const std::function<void(Parent&)>& run) : pipe_(-1, -1) {
  int down[2], up[2];
  CHECK_EQ(pipe(down), 0);
  CHECK_EQ(pipe(up), 0);
  pid_ = fork();
  CHECK_GE(pid_, 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Parent parent(down[0], up[1]);
    run(parent);
    _exit(0);
  }
  close(down[0]);
  close(up[1]);
  pipe_ = Parent(up[0], down[1]);
}

ForkedProcess::~ForkedProcess() { Kill(); }

void ForkedProcess::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(std::exchange(pid_, -1), nullptr, 0);
}

void ForkedProcess::Stop() { CHECK_EQ(kill(pid_, SIGSTOP), 0); }

absl::Duration ForkedProcess::CpuTime() const {
  clockid_t clock;
  timespec time;
  CHECK_EQ(clock_getcpuclockid(pid_, &clock), 0);
  CHECK_EQ(clock_gettime(clock, &time), 0);
  return absl::DurationFromTimespec(time);
}

}  // namespace capstan
