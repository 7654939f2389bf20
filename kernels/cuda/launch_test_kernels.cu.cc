#include "kernels/cuda/launch_test_kernels.h"

#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"

namespace capstan {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// At most 32 registers.
__global__ void WriteMultiplesKernel(int64_t count, float scale, float* values) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    values[i] = static_cast<float>(i) * scale;
}

__device__ float WarpSum(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(~0u, value, mask);
  return value;
}

// At most 24 registers and 32 bytes of shared memory.
__global__ void __launch_bounds__(kThreads) SumBlocksKernel(const float* values, float* sums) {
  __shared__ float warp_sums[kWarps];
  const float sum = WarpSum(values[int64_t{blockIdx.x} * kThreads + threadIdx.x]);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float total = 0;
  for (float warp_sum : warp_sums) total += warp_sum;
  sums[blockIdx.x] = total;
}

}  // namespace

absl::Status WriteMultiples(int64_t count, int threads, float scale, float* values,
                            CudaStream& stream) {
  return Launch("write multiples", stream, ElementwiseBlocks(count, threads, stream), threads,
                WriteMultiplesKernel, count, scale, values);
}

absl::Status SumBlocks(int64_t blocks, int threads, const float* values, float* sums,
                       CudaStream& stream) {
  return Launch("sum blocks", stream, blocks, threads, SumBlocksKernel, values, sums);
}

int64_t BlocksFor(int64_t count, int threads, const CudaStream& stream) {
  return ElementwiseBlocks(count, threads, stream);
}

}  // namespace capstan
