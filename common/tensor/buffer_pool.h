#ifndef COMMON_TENSOR_BUFFER_POOL_H_
#define COMMON_TENSOR_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace capstan {

// Buffers that are used again and again, by size, so that a steady state allocates nothing: memory
// that is touched for the first time costs more than the copy into it. Those of 256 KiB or more lie
// in huge pages. Thread-safe.
class BufferPool {
 public:
  BufferPool();

  // `bytes` of memory with undefined contents, aligned to a page when they are one or more. They
  // come back when the last owner lets go, also after the pool's end.
  std::shared_ptr<uint8_t> Take(size_t bytes);

  // Of all that wait to be taken again.
  size_t free_bytes() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace capstan

#endif  // COMMON_TENSOR_BUFFER_POOL_H_
