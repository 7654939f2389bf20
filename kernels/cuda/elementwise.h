#ifndef KERNELS_CUDA_ELEMENTWISE_H_
#define KERNELS_CUDA_ELEMENTWISE_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda_stream.h"

// Shared by kernels that stream through arrays. For .cu.cc files only.
namespace capstan {

// `kWidth` neighbours. One instruction loads or stores them.
template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T items[kWidth];
};

// Elements in a pack of 16 bytes, the widest access of a GPU.
constexpr int kPackWidth = 4;

// Full blocks fill every multiprocessor (1,024, 1,536 or 2,048 threads) when registers allow, and
// eight warps hide the start of a block.
constexpr int kElementwiseThreads = 256;

// A thread loads 2 packs of each array before it stores any. The 2,048 threads of a multiprocessor
// then have 64 KiB of each array under way. The latency of an H200's memory times its bandwidth is
// about 32 KiB.
constexpr int kElementwiseUnroll = 2;

// The number of blocks of a loop over `items` in steps of the grid. More blocks than are resident
// at once even out their ends. The bound keeps the cost of starting a block small against its work.
inline int64_t ElementwiseBlocks(int64_t items, int64_t items_per_block, const CudaStream& stream) {
  constexpr int64_t kBlocksPerMultiprocessor = 64;
  return std::min((items + items_per_block - 1) / items_per_block,
                  kBlocksPerMultiprocessor * stream.device().multiprocessor_count());
}

// True if each pointer can be accessed in packs of `bytes`.
template <typename... T>
bool AreAligned(size_t bytes, const T*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % bytes == 0) && ...);
}

template <int kWidth, typename T>
__device__ inline Pack<T, kWidth> LoadPack(const T* array, int64_t pack) {
  return reinterpret_cast<const Pack<T, kWidth>*>(array)[pack];
}

template <int kWidth, typename T>
__device__ inline void StorePack(const Pack<T, kWidth>& values, T* array, int64_t pack) {
  reinterpret_cast<Pack<T, kWidth>*>(array)[pack] = values;
}

}  // namespace capstan

#endif  // KERNELS_CUDA_ELEMENTWISE_H_
