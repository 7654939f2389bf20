#ifndef TESTS_CUDA_EMULATOR_SANITIZERS_H_
#define TESTS_CUDA_EMULATOR_SANITIZERS_H_

#include <cstddef>

#include "absl/base/attributes.h"
#include "absl/base/config.h"
#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

#ifdef ABSL_HAVE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

// Tells ThreadSanitizer and AddressSanitizer about the emulator. Empty without them.
namespace capstan {
namespace emulator {

// While one lives, the calling thread's locks, atomics and accesses tell ThreadSanitizer nothing.
class UnseenByThreadSanitizer {
 public:
  UnseenByThreadSanitizer();
  ~UnseenByThreadSanitizer();
  UnseenByThreadSanitizer(const UnseenByThreadSanitizer&) = delete;
  UnseenByThreadSanitizer& operator=(const UnseenByThreadSanitizer&) = delete;
};

// A MutexLock that orders nothing in ThreadSanitizer's eyes. CUDA's own locks promise a program no
// order either. A visible lock would hide the races of a program that waits for too little.
class ABSL_SCOPED_LOCKABLE QuietLock {
 public:
  explicit QuietLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex) {}
  ~QuietLock() ABSL_UNLOCK_FUNCTION() {}

 private:
  const UnseenByThreadSanitizer unseen_;
  MutexLock lock_;
};

// Work before ReleaseOrder(x) happened before work after a later AcquireOrder(x), in any thread.
void ReleaseOrder(void* x);
void AcquireOrder(void* x);

// One of a thread's stacks, as the sanitizers see it.
struct FiberTag {
  void* thread_sanitizer_fiber = nullptr;
  void* fake_stack = nullptr;
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
};

// The tag of the running stack.
FiberTag CurrentFiberTag();
FiberTag MakeFiberTag(const void* stack_bottom, size_t stack_bytes);
// Nothing of the fiber is on its stack any more, or will be looked at.
void DropFiberTag(FiberTag& tag);

void StartSwitch(FiberTag& from, const FiberTag& to);

// Right before the switch from one to the other, and right after it, on the other's stack.
// Inlined: returning from here would already count as a return of the other fiber.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void BeforeSwitch(FiberTag& from, const FiberTag& to) {
  StartSwitch(from, to);
#ifdef ABSL_HAVE_THREAD_SANITIZER
  __tsan_switch_to_fiber(to.thread_sanitizer_fiber, 0);
#endif
}
void AfterSwitch(const FiberTag& to);

}  // namespace emulator
}  // namespace capstan

#endif  // TESTS_CUDA_EMULATOR_SANITIZERS_H_
