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

// Floats in a line of the L2 cache.
constexpr int kLineFloats = 32;

// Asks for the line with this address, and does not wait until the L2 cache has it. Changes
// nothing.
__device__ inline void PrefetchToL2(const float* address) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#else
  // The emulator reads it, so that sanitizers see an address outside of the array.
  static_cast<void>(*static_cast<const volatile float*>(address));
#endif
}

// The pack of an array of `n`, with zeros beyond the end. Unaligned elements are loaded one by one.
template <bool kIsAligned>
__device__ inline Pack<float, kPackWidth> LoadPackOf(int64_t n, const float* array, int64_t pack) {
  const int64_t first = pack * kPackWidth;
  if (kIsAligned && first + kPackWidth <= n) return LoadPack<kPackWidth>(array, pack);
  Pack<float, kPackWidth> items;
#pragma unroll
  for (int item = 0; item < kPackWidth; ++item) {
    items.items[item] = first + item < n ? array[first + item] : 0.0f;
  }
  return items;
}

// Stores what of the pack belongs to an array of `n`. Unaligned elements are stored one by one.
template <bool kIsAligned, typename T>
__device__ inline void StorePackOf(int64_t n, const Pack<T, kPackWidth>& values, T* array,
                                   int64_t pack) {
  const int64_t first = pack * kPackWidth;
  if (kIsAligned && first + kPackWidth <= n) return StorePack(values, array, pack);
#pragma unroll
  for (int item = 0; item < kPackWidth; ++item) {
    if (first + item < n) array[first + item] = values.items[item];
  }
}

// The packs from `pack` on.
template <bool kIsAligned, int kItems>
__device__ inline void LoadItems(int64_t n, const float* array, int64_t pack,
                                 float (&items)[kItems]) {
  static_assert(kItems % kPackWidth == 0);
#pragma unroll
  for (int u = 0; u < kItems / kPackWidth; ++u) {
    const auto from = LoadPackOf<kIsAligned>(n, array, pack + u);
#pragma unroll
    for (int item = 0; item < kPackWidth; ++item) items[u * kPackWidth + item] = from.items[item];
  }
}

template <bool kIsAligned, int kItems>
__device__ inline void StoreItems(int64_t n, const float (&items)[kItems], float* array,
                                  int64_t pack) {
  static_assert(kItems % kPackWidth == 0);
#pragma unroll
  for (int u = 0; u < kItems / kPackWidth; ++u) {
    Pack<float, kPackWidth> to;
#pragma unroll
    for (int item = 0; item < kPackWidth; ++item) to.items[item] = items[u * kPackWidth + item];
    StorePackOf<kIsAligned>(n, to, array, pack + u);
  }
}

}  // namespace capstan

#endif  // KERNELS_CUDA_ELEMENTWISE_H_
