#include "common/tensor/buffer_pool.h"

#include <utility>

#include "common/tensor/host_memory.h"

namespace capstan {
namespace {

// Smaller ones lie in memory of their own: a pool has them in many sizes.
constexpr size_t kLeastSharing = kHugePageBytes / 8;

}  // namespace

struct BufferPool::State {
  mutable Mutex mu;
  std::map<size_t, std::vector<uint8_t*>> free ABSL_GUARDED_BY(mu);  // by size
  std::vector<void*> memory ABSL_GUARDED_BY(mu);                     // all that buffers lie in

  ~State() {
    for (void* const piece : memory) FreeHostMemory(piece);
  }

  // Adds buffers of `bytes` to the free ones: as many as fit into a huge page, or one.
  void AddLocked(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const size_t stride = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    const bool is_alone = bytes < kLeastSharing || stride > kHugePageBytes / 2;
    auto* const piece =
        static_cast<uint8_t*>(AllocateHostMemory(is_alone ? bytes : kHugePageBytes));
    memory.push_back(piece);
    const size_t count = is_alone ? 1 : kHugePageBytes / stride;
    for (size_t i = count; i > 0; --i) free[bytes].push_back(piece + (i - 1) * stride);
  }
};

BufferPool::BufferPool() : state_(std::make_shared<State>()) {}

std::shared_ptr<uint8_t> BufferPool::Take(size_t bytes) {
  uint8_t* memory = nullptr;
  {
    MutexLock lock(&state_->mu);
    std::vector<uint8_t*>& free = state_->free[bytes];
    if (free.empty()) state_->AddLocked(bytes);
    memory = free.back();
    free.pop_back();
  }
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
