#include "common/base/keep_freed_memory.h"

#include <malloc.h>

namespace capstan {
namespace {

// gRPC receives into blocks of at most 4 MiB.
constexpr int kLargestBlockBytes = 8 << 20;
constexpr int kKeptBytes = 256 << 20;

}  // namespace

void KeepFreedMemory() {
  // A malloc that knows neither, such as a sanitizer's, has ways of its own.
  (void)mallopt(M_MMAP_THRESHOLD, kLargestBlockBytes);
  (void)mallopt(M_TRIM_THRESHOLD, kKeptBytes);
}

}  // namespace capstan
