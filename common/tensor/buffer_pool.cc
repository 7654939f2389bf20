#include "common/tensor/buffer_pool.h"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace capstan {
namespace {

constexpr size_t kHugePage = 2 << 20;
constexpr size_t kCacheLine = 64;

size_t AlignmentOf(size_t bytes) {
  if (bytes >= kHugePage) return kHugePage;
  return bytes >= BufferPool::kPage ? BufferPool::kPage : kCacheLine;
}

uint8_t* Allocate(size_t bytes) {
  const size_t alignment = AlignmentOf(bytes);
  auto* const memory =
      static_cast<uint8_t*>(::operator new(bytes, static_cast<std::align_val_t>(alignment)));
  // Fewer and cheaper page faults; a kernel that has none says no.
  if (alignment == kHugePage) (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

void Free(uint8_t* memory, size_t bytes) {
  ::operator delete(memory, static_cast<std::align_val_t>(AlignmentOf(bytes)));
}

}  // namespace

struct BufferPool::State {
  mutable Mutex mu;
  std::map<size_t, std::vector<uint8_t*>> free ABSL_GUARDED_BY(mu);  // by size

  ~State() {
    for (auto& [bytes, buffers] : free) {
      for (uint8_t* const buffer : buffers) Free(buffer, bytes);
    }
  }
};

BufferPool::BufferPool() : state_(std::make_shared<State>()) {}

std::shared_ptr<uint8_t> BufferPool::Take(size_t bytes) {
  uint8_t* memory = nullptr;
  {
    MutexLock lock(&state_->mu);
    std::vector<uint8_t*>& free = state_->free[bytes];
    if (!free.empty()) {
      memory = free.back();
      free.pop_back();
    }
  }
  if (memory == nullptr) memory = Allocate(bytes);
  return {memory, [state = state_, bytes](uint8_t* returned) {
            MutexLock lock(&state->mu);
            state->free[bytes].push_back(returned);
          }};
}

size_t BufferPool::free_bytes() const {
  MutexLock lock(&state_->mu);
  size_t sum = 0;
  for (const auto& [bytes, buffers] : state_->free) sum += bytes * buffers.size();
  return sum;
}

}  // namespace capstan
