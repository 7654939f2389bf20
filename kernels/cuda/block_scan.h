#ifndef KERNELS_CUDA_BLOCK_SCAN_H_
#define KERNELS_CUDA_BLOCK_SCAN_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/block_sum.h"

// Running sums over the threads of a block. For .cu.cc files only.
namespace capstan {

struct ScannedSum {
  uint64_t before;  // of the threads before this one
  uint64_t total;   // of all threads
};

__device__ inline ScannedSum WarpScan(uint64_t own) {
  ScannedSum sum = {0, own};
  // Before each round, `total` is of the lane's group of `distance` lanes.
#pragma unroll
  for (int distance = 1; distance < kWarpThreads; distance *= 2) {
    const uint64_t other = __shfl_xor_sync(kWholeWarp, sum.total, distance);
    if (threadIdx.x & distance) sum.before += other;
    sum.total += other;
  }
  return sum;
}

// Called by all threads of a block, as often as needed.
template <int kThreads>
__device__ ScannedSum BlockScan(uint64_t own) {
  static_assert(kThreads % kWarpThreads == 0);
  constexpr int kWarps = kThreads / kWarpThreads;
  __shared__ uint64_t totals[kWarps];
  const ScannedSum in_warp = WarpScan(own);
  const int own_warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  __syncthreads();  // The call before has been read.
  if (threadIdx.x % kWarpThreads == 0) totals[own_warp] = in_warp.total;
  __syncthreads();
  ScannedSum sum = {in_warp.before, 0};
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    if (warp < own_warp) sum.before += totals[warp];
    sum.total += totals[warp];
  }
  return sum;
}

}  // namespace capstan

#endif  // KERNELS_CUDA_BLOCK_SCAN_H_
