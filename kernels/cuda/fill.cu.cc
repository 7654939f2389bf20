#include "kernels/fill.h"

#include <cuda_runtime.h>

#include "common/base/status_macros.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"

namespace capstan {
namespace {

// Bytes moved for each element: 4 written.
template <int kWidth>
__global__ void __launch_bounds__(kElementwiseThreads)
    FillKernel(int64_t n, float value, float* values) {
  Pack<float, kWidth> pack;
#pragma unroll
  for (int item = 0; item < kWidth; ++item) pack.items[item] = value;
  for (int64_t i = int64_t{blockIdx.x} * kElementwiseThreads + threadIdx.x; i < n / kWidth;
       i += int64_t{gridDim.x} * kElementwiseThreads) {
    StorePack(pack, values, i);
  }
}

template <int kWidth>
absl::Status LaunchFill(int64_t n, float value, float* values, CudaStream& stream) {
  return Launch("fill", stream, ElementwiseBlocks(n / kWidth, kElementwiseThreads, stream),
                kElementwiseThreads, FillKernel<kWidth>, n, value, values);
}

}  // namespace

absl::Status Fill(int64_t n, float value, float* values, CudaStream& stream) {
  const int64_t in_packs = AreAligned(sizeof(float4), values) ? n / kPackWidth * kPackWidth : 0;
  RETURN_IF_ERROR(LaunchFill<kPackWidth>(in_packs, value, values, stream));
  return LaunchFill<1>(n - in_packs, value, values + in_packs, stream);
}

}  // namespace capstan
