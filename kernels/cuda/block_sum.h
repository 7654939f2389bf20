#ifndef KERNELS_CUDA_BLOCK_SUM_H_
#define KERNELS_CUDA_BLOCK_SUM_H_

#include <cuda_runtime.h>

#include "kernels/cuda/sum_and_count.h"

// Sums over a warp and a block, always in the same order. For .cu.cc files only.
namespace capstan {

constexpr int kWarpThreads = 32;
constexpr unsigned kWholeWarp = 0xffffffff;

__device__ inline SumAndCount WarpSum(SumAndCount own) {
#pragma unroll
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    own.sum += __shfl_xor_sync(kWholeWarp, own.sum, distance);
    own.count += __shfl_xor_sync(kWholeWarp, own.count, distance);
  }
  return own;
}

// The sum over the block, in the threads of its first warp. Called once by all threads of a block.
template <int kThreads>
__device__ SumAndCount BlockSum(SumAndCount own) {
  static_assert(kThreads % kWarpThreads == 0);
  __shared__ SumAndCount all[kThreads];
  all[threadIdx.x] = own;
  __syncthreads();
  if (threadIdx.x >= kWarpThreads) return own;
  for (int i = static_cast<int>(threadIdx.x) + kWarpThreads; i < kThreads; i += kWarpThreads) {
    own.sum += all[i].sum;
    own.count += all[i].count;
  }
  return WarpSum(own);
}

}  // namespace capstan

#endif  // KERNELS_CUDA_BLOCK_SUM_H_
