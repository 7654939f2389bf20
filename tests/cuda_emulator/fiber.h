#ifndef TESTS_CUDA_EMULATOR_FIBER_H_
#define TESTS_CUDA_EMULATOR_FIBER_H_

#include <ucontext.h>

#include <cstddef>
#include <functional>

#include "tests/cuda_emulator/sanitizers.h"

namespace capstan {
namespace emulator {

// One of several stacks of a thread. The thread switches from one to another, at known places only.
// Used only by its creator's thread.
class Fiber {
 public:
  // The calling thread's own stack.
  Fiber();
  // `body` runs at the first switch here. It never returns: it switches away for the last time.
  explicit Fiber(std::function<void()> body);
  // Not while it runs. Objects on its stack are forgotten, not destroyed.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Goes from `from`, the running one, to `to`. Returns when something switches to `from` again.
  static void Switch(Fiber& from, Fiber& to);

 private:
  static void Start(unsigned high, unsigned low);

  const std::function<void()> body_;
  void* stack_ = nullptr;  // a guard page and the stack proper; null for the thread's own
  ucontext_t context_;
  FiberTag tag_;
};

}  // namespace emulator
}  // namespace capstan

#endif  // TESTS_CUDA_EMULATOR_FIBER_H_
