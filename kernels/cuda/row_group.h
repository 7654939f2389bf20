#ifndef KERNELS_CUDA_ROW_GROUP_H_
#define KERNELS_CUDA_ROW_GROUP_H_

#include <cuda_runtime.h>

#include "kernels/cuda/block_sum.h"
#include "kernels/cuda/softmax_row.h"

// Maximum and sum over the `kLanes` neighbouring threads that share a row of a matrix: a power of 2
// up to a warp, or a whole block. All threads of the block call them together, in turn, Maximum
// first; each gets its group's result, with the same bits. For .cu.cc files only.
namespace capstan {

template <int kLanes>
__device__ float MaximumOfLanes(float own) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    own = fmaxf(own, __shfl_xor_sync(kWholeWarp, own, distance));
  }
  return own;
}

template <int kLanes>
__device__ RowTotal SumOfLanes(RowTotal own) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    own.sum += __shfl_xor_sync(kWholeWarp, own.sum, distance);
    own.earlier += __shfl_xor_sync(kWholeWarp, own.earlier, distance);
  }
  return own;
}

// One barrier in each of the two functions is enough: what one of them shares is overwritten only
// after the barrier of the other, when all have read it.
template <int kLanes>
__device__ float GroupMaximum(float own) {
  if constexpr (kLanes <= kWarpThreads) {
    return MaximumOfLanes<kLanes>(own);
  } else {
    constexpr int kWarps = kLanes / kWarpThreads;
    __shared__ float warps[kWarps];
    own = MaximumOfLanes<kWarpThreads>(own);
    if (threadIdx.x % kWarpThreads == 0) warps[threadIdx.x / kWarpThreads] = own;
    __syncthreads();
    return MaximumOfLanes<kWarps>(warps[threadIdx.x % kWarps]);
  }
}

template <int kLanes>
__device__ RowTotal GroupSum(RowTotal own) {
  if constexpr (kLanes <= kWarpThreads) {
    return SumOfLanes<kLanes>(own);
  } else {
    constexpr int kWarps = kLanes / kWarpThreads;
    __shared__ RowTotal warps[kWarps];
    own = SumOfLanes<kWarpThreads>(own);
    if (threadIdx.x % kWarpThreads == 0) warps[threadIdx.x / kWarpThreads] = own;
    __syncthreads();
    return SumOfLanes<kWarps>(warps[threadIdx.x % kWarps]);
  }
}

}  // namespace capstan

#endif  // KERNELS_CUDA_ROW_GROUP_H_
