#ifndef KERNELS_CUDA_ENCODE_SUMS_H_
#define KERNELS_CUDA_ENCODE_SUMS_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/block_sum.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/slice_encoding.h"

// The EncodeResult of a slice in two phases: each block of an encoder leaves one, and one block
// adds them up, always in the same order. For .cu.cc files only.
namespace capstan {

constexpr int kEncodeThreads = kElementwiseThreads;
// A thread has at least 8 elements: the loads of 2 packs are under way at once.
constexpr int kEncodeItems = 8;
constexpr int64_t kEncodeTile = int64_t{kEncodeThreads} * kEncodeItems;

// The number of blocks for `n` elements. Not a function of the GPU: the sums would be, too. The
// largest GPUs hold about half of the bound at once.
inline int64_t EncodeBlocks(int64_t n) {
  constexpr int64_t kMaxBlocks = 2048;
  return std::min((n + kEncodeTile - 1) / kEncodeTile, kMaxBlocks);
}

// `sum` is value + residual, and `rest` the new residual.
__device__ inline void AddElement(bool has_residual, float value, float sum, float rest,
                                  EncodeResult& own) {
  const bool is_finite = fabsf(sum) <= 3.402823466e38f;
  own.non_finite += is_finite ? 0 : 1;
  if (!has_residual) return;
  // The square of a float32 is exact in float64.
  own.gradient_sum_of_squares += static_cast<double>(value) * static_cast<double>(value);
  own.residual_sum_of_squares += static_cast<double>(rest) * static_cast<double>(rest);
}

__device__ inline EncodeResult WarpEncodeSum(EncodeResult own) {
#pragma unroll
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    own.gradient_sum_of_squares +=
        __shfl_xor_sync(kWholeWarp, own.gradient_sum_of_squares, distance);
    own.residual_sum_of_squares +=
        __shfl_xor_sync(kWholeWarp, own.residual_sum_of_squares, distance);
    own.non_finite += __shfl_xor_sync(kWholeWarp, own.non_finite, distance);
  }
  return own;
}

// Writes the sum over the block to `total`. Called once by all threads of a block.
template <int kThreads>
__device__ void StoreBlockEncodeSum(const EncodeResult& own, EncodeResult* total) {
  static_assert(kThreads % kWarpThreads == 0);
  // An array of EncodeResult would need a constructor.
  __shared__ double gradients[kThreads];
  __shared__ double residuals[kThreads];
  __shared__ int64_t non_finites[kThreads];
  gradients[threadIdx.x] = own.gradient_sum_of_squares;
  residuals[threadIdx.x] = own.residual_sum_of_squares;
  non_finites[threadIdx.x] = own.non_finite;
  __syncthreads();
  if (threadIdx.x >= kWarpThreads) return;
  EncodeResult sum;
  for (int i = static_cast<int>(threadIdx.x); i < kThreads; i += kWarpThreads) {
    sum.gradient_sum_of_squares += gradients[i];
    sum.residual_sum_of_squares += residuals[i];
    sum.non_finite += non_finites[i];
  }
  sum = WarpEncodeSum(sum);
  if (threadIdx.x == 0) *total = sum;
}

// Queues the second phase of `operation`. Without partials all is 0. Errors name the operation.
absl::Status AddEncodeSums(const char* operation, int64_t n, const EncodeResult* partials,
                           EncodeResult* result, CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_CUDA_ENCODE_SUMS_H_
