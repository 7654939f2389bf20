#include "server/sparse/huge_memory.h"

#include <glog/logging.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <utility>

namespace capstan {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHugePageBytes = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

constexpr size_t kLargeBytes = 4 * kHugePageBytes;

// Small memory ends with a small page. Large memory ends with a huge page, although up to 2 MiB of
// that are not in use.
size_t WholePages(size_t bytes) {
  return RoundUp(bytes, bytes < kLargeBytes ? kPageBytes : kHugePageBytes);
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

char* Map(size_t bytes) {
  void* const data = mmap(Reserve(bytes), bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  PCHECK(data != MAP_FAILED) << "expected " << bytes << " bytes of memory";
  // Only advice: a system without huge pages refuses it.
  madvise(data, bytes, MADV_HUGEPAGE);
  return static_cast<char*>(data);
}

}  // namespace

HugeMemory::~HugeMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

void HugeMemory::Grow(size_t bytes) {
  const size_t new_size = WholePages(bytes);
  if (new_size <= size_) return;
  if (data_ == nullptr) {
    data_ = Map(new_size);
  } else if (size_ < kLargeBytes && new_size >= kLargeBytes) {
    // Small pages would stay small. The copy of 8 MiB takes a few milliseconds, once.
    char* const small = std::exchange(data_, Map(new_size));
    std::memcpy(data_, small, size_);
    munmap(small, size_);
  } else {
    Extend(new_size);
  }
  size_ = new_size;
}

void HugeMemory::Extend(size_t new_size) {
  void* result = Remap(data_, size_, new_size, /*flags=*/0);  // if there is room behind
  if (result == MAP_FAILED) {
    result = Remap(data_, size_, new_size, MREMAP_MAYMOVE | MREMAP_FIXED, Reserve(new_size));
  }
  PCHECK(result != MAP_FAILED) << "expected " << new_size << " bytes of memory";
  data_ = static_cast<char*>(result);
  madvise(data_, new_size, MADV_HUGEPAGE);
}

}  // namespace capstan
