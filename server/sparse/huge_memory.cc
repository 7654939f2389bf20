#include "server/sparse/huge_memory.h"

#include <glog/logging.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace capstan {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHugePageBytes = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

constexpr size_t kLineBytes = 64;
// Smaller memory is the heap's. The system gives a process 65,530 maps (vm.max_map_count), and each
// shard of each table has memory of its own.
constexpr size_t kMappedBytes = size_t{1} << 20;
// From this size on there are huge pages.
constexpr size_t kLargeBytes = 4 * kHugePageBytes;

// What the memory consists of. Large memory ends with a huge page, although up to 2 MiB of that are
// not in use.
size_t UnitOf(size_t bytes) {
  if (bytes < kMappedBytes) return kLineBytes;
  return bytes < kLargeBytes ? kPageBytes : kHugePageBytes;
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

char* NewZeros(size_t bytes) {
  if (bytes >= kMappedBytes) return Map(bytes);
  void* const data = std::aligned_alloc(kLineBytes, bytes);
  PCHECK(data != nullptr) << "expected " << bytes << " bytes of memory";
  return static_cast<char*>(std::memset(data, 0, bytes));
}

void Free(char* data, size_t bytes) {
  if (bytes >= kMappedBytes) {
    munmap(data, bytes);
  } else {
    std::free(data);
  }
}

}  // namespace

HugeMemory::~HugeMemory() {
  if (data_ != nullptr) Free(data_, size_);
}

void HugeMemory::Grow(size_t bytes) {
  const size_t new_size = RoundUp(bytes, UnitOf(bytes));
  if (new_size <= size_) return;
  const size_t unit = UnitOf(new_size);  // a whole page may be the first large one
  if (unit > kLineBytes && unit == UnitOf(size_)) {
    Extend(new_size);
  } else {
    // The heap's memory is small. And small pages would stay small: the copy of 8 MiB takes a few
    // milliseconds, once.
    char* const data = NewZeros(new_size);
    if (data_ != nullptr) {
      std::memcpy(data, data_, size_);
      Free(data_, size_);
    }
    data_ = data;
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
