#ifndef TESTS_PROCESS_FORKED_PROCESS_H_
#define TESTS_PROCESS_FORKED_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/time/time.h"

namespace capstan {

// A child process with a function. Parent and child exchange lines. Must be created before any
// thread. The destructor kills the child.
class ForkedProcess {
 public:
  // The child's side.
  class Parent {
   public:
    Parent(int in, int out) : in_(in), out_(out) {}
    // Without the newline. Empty after the end of the parent.
    std::string ReadLine();
    void WriteLine(const std::string& line);
    // A descriptor. It is readable after a line or the end of the other side.
    int in() const { return in_; }
    // The descriptor that WriteLine writes to.
    int out() const { return out_; }

   private:
    int in_;
    int out_;
  };

  explicit ForkedProcess(const std::function<void(Parent&)>& run);
  ~ForkedProcess();
  ForkedProcess(const ForkedProcess&) = delete;
  ForkedProcess& operator=(const ForkedProcess&) = delete;

  std::string ReadLine() { return pipe_.ReadLine(); }
  void WriteLine(const std::string& line) { pipe_.WriteLine(line); }
  int in() const { return pipe_.in(); }
  void Kill();
  // The child stays alive, but does nothing any more.
  void Stop();
  // The child's CPU time over all cores.
  absl::Duration CpuTime() const;

 private:
  Parent pipe_;
  pid_t pid_;
};

}  // namespace capstan

#endif  // TESTS_PROCESS_FORKED_PROCESS_H_
