#ifndef COMMON_TENSOR_BUFFER_POOL_H_
#define COMMON_TENSOR_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace capstan {

// Reuses buffers, by size: the first touch of memory costs more than the copy into it. Sizes are
// rounded up to whole pages, and large ones by an eighth at most. So messages of ever other sizes
// share a few buffers, which stay in the cache. Buffers of 256 KiB or more lie in huge pages.
// Buffers of less than a page come from malloc, cheaper than the pool's lock. The pool returns free
// buffers to the system while it holds more than kSlackBytes and twice the most bytes ever taken at
// once. Thread-safe.
class BufferPool {
 public:
  static constexpr size_t kSlackBytes = 64 << 20;
  // Smaller buffers come from malloc.
  static constexpr size_t kLeastBytes = 4096;

  BufferPool();

  // `least_bytes` of memory, or somewhat more, with undefined contents; a page or more is aligned
  // to a page. The memory comes back from its last owner, even after the pool's end.
  std::shared_ptr<uint8_t> Take(size_t least_bytes);

  // Bytes of the free buffers.
  size_t free_bytes() const;
  // Bytes taken from the system: all buffers, and the unused rest of their huge pages.
  size_t held_bytes() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace capstan

#endif  // COMMON_TENSOR_BUFFER_POOL_H_
