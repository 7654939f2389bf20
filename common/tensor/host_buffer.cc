#include "common/tensor/host_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace capstan {
namespace {

// No program can have more. Sanitizers abort when asked for more.
constexpr size_t kMostFloats = PTRDIFF_MAX / sizeof(float) / 2;

size_t AlignmentOf(size_t bytes) {
  if (bytes >= kHugePageBytes) return kHugePageBytes;
  return bytes >= kPageBytes ? kPageBytes : kCacheLineBytes;
}

// Null if there is not enough memory.
void* TryAllocate(size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, AlignmentOf(bytes), bytes) != 0) return nullptr;
  // Fails on a kernel without huge pages.
  if (bytes >= kHugePageBytes) (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

}  // namespace

void* AllocateHostMemory(size_t bytes) {
  void* const memory = TryAllocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void FreeHostMemory(void* memory) { std::free(memory); }

HostBuffer::HostBuffer(size_t size)
    : size_(size), data_(static_cast<float*>(AllocateHostMemory(size * sizeof(float)))) {
  std::memset(data_.get(), 0, size_bytes());
}

absl::StatusOr<HostBuffer> HostBuffer::Create(size_t size) {
  HostBuffer buffer;
  if (size <= kMostFloats) {
    buffer.data_.reset(static_cast<float*>(TryAllocate(size * sizeof(float))));
  }
  if (buffer.data_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrFormat("out of memory: cannot allocate %.0f bytes",
                                                        static_cast<double>(size) * sizeof(float)));
  }
  buffer.size_ = size;
  std::memset(buffer.data(), 0, buffer.size_bytes());
  return buffer;
}

}  // namespace capstan
