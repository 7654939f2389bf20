#ifndef KERNELS_CUDA_EMULATOR_FIBER_H_
#define KERNELS_CUDA_EMULATOR_FIBER_H_

#include <ucontext.h>

#include <cstddef>
#include <functional>

#include "kernels/cuda/emulator/sanitizers.h"

namespace capstan {
namespace emulator {

// A stack of its own on which a thread runs for a while: switching goes from one to another within
// a thread, at known places only. Used by the thread that made it.
class Fiber {
 public:
  // The stack that the calling thread has anyhow.
  Fiber();
  // `body` runs at the first switch here. It never returns: it switches away for the last time.
  explicit Fiber(std::function<void()> body);
  // Not while it runs. What its stack holds is forgotten, not destroyed.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Goes from `from`, which runs now, to `to`. Returns when something switches to `from` again.
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

#endif  // KERNELS_CUDA_EMULATOR_FIBER_H_
