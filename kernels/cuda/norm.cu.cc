#include "kernels/norm.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "common/base/status_macros.h"
#include "kernels/cuda/block_sum.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sum_and_count.h"

namespace capstan {
namespace {

constexpr char kOperation[] = "sum of squares";
constexpr int kThreads = kElementwiseThreads;
constexpr int kUnroll = 4;  // packs under way in each thread
// A thread adds at least this many packs. With fewer, the second phase would count.
constexpr int64_t kMinPacks = 2 * kUnroll;
// The largest GPUs hold about a quarter of this at once, so that the ends of the blocks even out. A
// constant: the order of the sum does not depend on the GPU.
constexpr int64_t kMaxBlocks = 4096;

int64_t PackCount(int64_t n) { return (n + kPackWidth - 1) / kPackWidth; }

int64_t BlockCount(int64_t n) {
  constexpr int64_t kPacksPerBlock = kThreads * kMinPacks;
  return std::min((PackCount(n) + kPacksPerBlock - 1) / kPacksPerBlock, kMaxBlocks);
}

__device__ inline void AddSquare(float value, SumAndCount& own) {
  // Neither NaN nor infinite.
  const bool is_finite = fabsf(value) <= 3.402823466e38f;
  const double finite = is_finite ? value : 0.0f;
  own.sum += finite * finite;  // the square of a float32 is exact in float64
  own.count += is_finite ? 0 : 1;
}

// Bytes moved for each element: 4 read.
// At most 56 registers and 4096 bytes of shared memory.
template <bool kIsAligned>
__global__ void __launch_bounds__(kThreads)
    SumOfSquaresKernel(int64_t n, const float* values, SumAndCount* partials) {
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  SumAndCount own = {0, 0};
  for (int64_t first = int64_t{blockIdx.x} * kThreads + threadIdx.x; first * kPackWidth < n;
       first += kUnroll * stride) {
    Pack<float, kPackWidth> packs[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      packs[u] = LoadPackOf<kIsAligned>(n, values, first + u * stride);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int item = 0; item < kPackWidth; ++item) AddSquare(packs[u].items[item], own);
    }
  }
  const SumAndCount total = BlockSum<kThreads>(own);
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

}  // namespace

size_t SumOfSquaresScratchBytes(int64_t n, const CudaStream& /*stream*/) {
  return static_cast<size_t>(BlockCount(n)) * sizeof(SumAndCount);
}

absl::Status SumOfSquares(int64_t n, const float* values, NormResult* result, void* scratch,
                          CudaStream& stream) {
  SumAndCount* partials = static_cast<SumAndCount*>(scratch);
  const bool is_aligned = AreAligned(sizeof(float4), values);
  RETURN_IF_ERROR(Launch(kOperation, stream, BlockCount(n), kThreads,
                         is_aligned ? SumOfSquaresKernel<true> : SumOfSquaresKernel<false>, n,
                         values, partials));
  return AddPartials(kOperation, BlockCount(n), partials, &result->sum_of_squares,
                     &result->non_finite, stream);
}

}  // namespace capstan
