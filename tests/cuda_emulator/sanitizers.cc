#include "tests/cuda_emulator/sanitizers.h"

#include "absl/base/config.h"

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef ABSL_HAVE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

namespace capstan {
namespace emulator {

#ifdef ABSL_HAVE_THREAD_SANITIZER

UnseenByThreadSanitizer::UnseenByThreadSanitizer() {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}

UnseenByThreadSanitizer::~UnseenByThreadSanitizer() {
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

void ReleaseOrder(void* x) { __tsan_release(x); }
void AcquireOrder(void* x) { __tsan_acquire(x); }

FiberTag CurrentFiberTag() {
  FiberTag tag;
  tag.thread_sanitizer_fiber = __tsan_get_current_fiber();
  return tag;
}

FiberTag MakeFiberTag(const void* /*stack_bottom*/, size_t /*stack_bytes*/) {
  FiberTag tag;
  tag.thread_sanitizer_fiber = __tsan_create_fiber(0);
  return tag;
}

void DropFiberTag(FiberTag& tag) { __tsan_destroy_fiber(tag.thread_sanitizer_fiber); }

void StartSwitch(FiberTag& /*from*/, const FiberTag& /*to*/) {}
void AfterSwitch(const FiberTag& /*to*/) {}

#else

UnseenByThreadSanitizer::UnseenByThreadSanitizer() {}
UnseenByThreadSanitizer::~UnseenByThreadSanitizer() {}

void ReleaseOrder(void* /*x*/) {}
void AcquireOrder(void* /*x*/) {}

#ifdef ABSL_HAVE_ADDRESS_SANITIZER

FiberTag CurrentFiberTag() {
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  FiberTag tag;
  void* bottom = nullptr;
  pthread_attr_getstack(&attributes, &bottom, &tag.stack_bytes);
  pthread_attr_destroy(&attributes);
  tag.stack_bottom = bottom;
  return tag;
}

FiberTag MakeFiberTag(const void* stack_bottom, size_t stack_bytes) {
  FiberTag tag;
  tag.stack_bottom = stack_bottom;
  tag.stack_bytes = stack_bytes;
  return tag;
}

void DropFiberTag(FiberTag& tag) { ASAN_UNPOISON_MEMORY_REGION(tag.stack_bottom, tag.stack_bytes); }

void StartSwitch(FiberTag& from, const FiberTag& to) {
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack_bottom, to.stack_bytes);
}

void AfterSwitch(const FiberTag& to) {
  __sanitizer_finish_switch_fiber(to.fake_stack, nullptr, nullptr);
}

#else

FiberTag CurrentFiberTag() { return {}; }
FiberTag MakeFiberTag(const void* /*stack_bottom*/, size_t /*stack_bytes*/) { return {}; }
void DropFiberTag(FiberTag& /*tag*/) {}
void StartSwitch(FiberTag& /*from*/, const FiberTag& /*to*/) {}
void AfterSwitch(const FiberTag& /*to*/) {}

#endif  // ABSL_HAVE_ADDRESS_SANITIZER
#endif  // ABSL_HAVE_THREAD_SANITIZER

}  // namespace emulator
}  // namespace capstan
