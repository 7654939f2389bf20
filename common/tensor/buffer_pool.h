#ifndef COMMON_TENSOR_BUFFER_POOL_H_
#define COMMON_TENSOR_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace capstan {

// Buffers that are used again and again, by size: memory that is touched for the first time costs
// more than the copy into it. Those of 256 KiB or more lie
// in huge pages; those of less than a page come from malloc, which costs less than the pool's lock.
// In whatever sizes they are taken, free ones are given back to the system while a pool holds more
// than twice what was ever taken at once, and kSlackBytes. Thread-safe.
class BufferPool {
 public:
  static constexpr size_t kSlackBytes = 64 << 20;
  // Smaller ones are not kept.
  static constexpr size_t kLeastBytes = 4096;

  BufferPool();

  // `bytes` of memory with undefined contents, aligned to a page when they are one or more. They
  // come back when the last owner lets go, also after the pool's end.
  std::shared_ptr<uint8_t> Take(size_t bytes);

  // Of all that wait to be taken again.
  size_t free_bytes() const;
  // That the pool has from the system: all buffers, and what is left of their huge pages.
  size_t held_bytes() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace capstan

#endif  // COMMON_TENSOR_BUFFER_POOL_H_
