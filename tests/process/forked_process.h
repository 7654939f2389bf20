#ifndef TESTS_PROCESS_FORKED_PROCESS_H_
#define TESTS_PROCESS_FORKED_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/time/time.h"

namespace capstan {

// A child of this process that runs a function, and talks with it in lines. To be made before any
// thread is. Killed when destroyed.
class ForkedProcess {
 public:
  // The child's side.
  class Parent {
   public:
    Parent(int in, int out) : in_(in), out_(out) {}
    // Without its end; empty when the parent has gone.
    std::string ReadLine();
    void WriteLine(const std::string& line);
    // Readable when a line, or the end of the other side, has come.
    int in() const { return in_; }

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
  // It does nothing any more, but is there.
  void Stop();
  // That the child has used, of all cores.
  absl::Duration CpuTime() const;

 private:
  Parent pipe_;
  pid_t pid_;
};

}  // namespace capstan

#endif  // TESTS_PROCESS_FORKED_PROCESS_H_
