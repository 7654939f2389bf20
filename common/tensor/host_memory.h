#ifndef COMMON_TENSOR_HOST_MEMORY_H_
#define COMMON_TENSOR_HOST_MEMORY_H_

#include <cstddef>

namespace capstan {

inline constexpr size_t kCacheLineBytes = 64;
inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kHugePageBytes = 2 << 20;

// `bytes` of host memory with undefined contents, aligned to a cache line, to a page if it is a
// page or more, and in huge pages if it is one or more and the kernel has them: memory that is
// walked through, or copied between processes, in small pages costs a fifth more. Throws
// std::bad_alloc.
void* AllocateHostMemory(size_t bytes);

// Of AllocateHostMemory; null is nothing.
void FreeHostMemory(void* memory);

}  // namespace capstan

#endif  // COMMON_TENSOR_HOST_MEMORY_H_
