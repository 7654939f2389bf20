#include "common/tensor/host_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace capstan {
namespace {

size_t AlignmentOf(size_t bytes) {
  if (bytes >= kHugePageBytes) return kHugePageBytes;
  return bytes >= kPageBytes ? kPageBytes : kCacheLineBytes;
}

}  // namespace

void* AllocateHostMemory(size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, AlignmentOf(bytes), bytes) != 0) throw std::bad_alloc();
  // A kernel that has none says no.
  if (bytes >= kHugePageBytes) (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

void FreeHostMemory(void* memory) { std::free(memory); }

}  // namespace capstan
