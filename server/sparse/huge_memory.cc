#include "server/sparse/huge_memory.h"

#include <glog/logging.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace capstan {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHugePageBytes = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Small memory ends with a small page. Large memory ends with a huge page, although up to 2 MiB of
// that are not in use.
size_t WholePages(size_t bytes) {
  return RoundUp(bytes, bytes < 4 * kHugePageBytes ? kPageBytes : kHugePageBytes);
}

// An address range of `bytes` without memory, aligned so that huge pages fit.
char* Reserve(size_t bytes) {
  const size_t reserved = bytes + kHugePageBytes;
  void* range =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PCHECK(range != MAP_FAILED) << "expected an address range of " << reserved << " bytes";
  char* begin = static_cast<char*>(range);
  const size_t before = RoundUp(reinterpret_cast<uintptr_t>(begin), kHugePageBytes) -
                        reinterpret_cast<uintptr_t>(begin);
  if (before > 0) munmap(begin, before);
  if (before < kHugePageBytes) munmap(begin + before + bytes, kHugePageBytes - before);
  return begin + before;
}

// As mremap. UCX puts a function of its own in the place of the C library's mremap, and that one
// loses the new address.
void* Remap(char* data, size_t size, size_t new_size, int flags, char* new_data = nullptr) {
  // An error is -1, as MAP_FAILED is.
  return reinterpret_cast<void*>(syscall(SYS_mremap, data, size, new_size, flags, new_data));
}

}  // namespace

HugeMemory::~HugeMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

void HugeMemory::Grow(size_t bytes) {
  const size_t new_size = WholePages(bytes);
  if (new_size <= size_) return;
  void* result = MAP_FAILED;
  if (data_ == nullptr) {
    result = mmap(Reserve(new_size), new_size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  } else {
    result = Remap(data_, size_, new_size, /*flags=*/0);  // stays where it is, if there is room
    if (result == MAP_FAILED) {
      result = Remap(data_, size_, new_size, MREMAP_MAYMOVE | MREMAP_FIXED, Reserve(new_size));
    }
  }
  PCHECK(result != MAP_FAILED) << "expected " << new_size << " bytes of memory";
  data_ = static_cast<char*>(result);
  size_ = new_size;
  // Only advice: a system without huge pages refuses it.
  madvise(data_, size_, MADV_HUGEPAGE);
}

}  // namespace capstan
