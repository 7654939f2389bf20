#ifndef KERNELS_CUDA_ELEMENTWISE_H_
#define KERNELS_CUDA_ELEMENTWISE_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda_stream.h"

// What kernels share that stream through arrays. For .cu.cc files only.
namespace capstan {

// `kWidth` neighbours, which one instruction loads or stores.
template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T items[kWidth];
};

// Elements in a pack of the widest access that a GPU has, 16 bytes.
constexpr int kPackWidth = 4;

// Full blocks fill every multiprocessor (1,024, 1,536 or 2,048 threads) when registers allow, and
// eight warps hide the start of a block.
constexpr int kElementwiseThreads = 256;

// Packs of each array that a thread loads before it stores any: with the 2,048 threads of a
// multiprocessor 64 KiB an array are under way, more than the 32 KiB or so that the latency of an
// H200's memory times its bandwidth asks for.
constexpr int kElementwiseUnroll = 2;

// Of a loop over `items` in steps of the grid. Some blocks more than are resident at once even out
// their ends; a bound keeps what a block costs to start small against its work.
inline int64_t ElementwiseBlocks(int64_t items, int64_t items_per_block, const CudaStream& stream) {
  constexpr int64_t kBlocksPerMultiprocessor = 64;
  return std::min((items + items_per_block - 1) / items_per_block,
                  kBlocksPerMultiprocessor * stream.device().multiprocessor_count());
}

// Whether each pointer can be accessed in packs of `bytes`.
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
