#ifndef KERNELS_CUDA_UPDATE_ELEMENTS_H_
#define KERNELS_CUDA_UPDATE_ELEMENTS_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"

// The kernel of all optimizers. For .cu.cc files only.
namespace capstan {

// The arrays that an update changes in place.
template <int kArrays>
struct UpdatedArrays {
  float* data[kArrays];
};

template <int kWidth, int kArrays, typename Rule>
__device__ void UpdatePack(const Rule& rule, const Pack<float, kWidth>& gradient,
                           Pack<float, kWidth> (&state)[kArrays]) {
#pragma unroll
  for (int item = 0; item < kWidth; ++item) {
    float element[kArrays];
#pragma unroll
    for (int j = 0; j < kArrays; ++j) element[j] = state[j].items[item];
    rule(gradient.items[item], element);
#pragma unroll
    for (int j = 0; j < kArrays; ++j) state[j].items[item] = element[j];
  }
}

// Calls rule(g, element) for each element g of `gradient`, where element[j] is that of arrays[j].
// Bytes moved for each element: 4 read for `gradient`, 8 read and written for each array.
template <int kWidth, int kArrays, typename Rule>
__global__ void __launch_bounds__(kElementwiseThreads)
    UpdateKernel(int64_t n, const float* gradient, UpdatedArrays<kArrays> arrays, Rule rule) {
  constexpr int kPacksPerBlock = kElementwiseThreads * kElementwiseUnroll;
  const int64_t packs = n / kWidth;
  for (int64_t first = int64_t{blockIdx.x} * kPacksPerBlock + threadIdx.x; first < packs;
       first += int64_t{gridDim.x} * kPacksPerBlock) {
    Pack<float, kWidth> g[kElementwiseUnroll] = {};
    Pack<float, kWidth> state[kElementwiseUnroll][kArrays] = {};
#pragma unroll
    for (int u = 0; u < kElementwiseUnroll; ++u) {
      const int64_t pack = first + u * kElementwiseThreads;
      if (pack >= packs) break;
      g[u] = LoadPack<kWidth>(gradient, pack);
#pragma unroll
      for (int j = 0; j < kArrays; ++j) state[u][j] = LoadPack<kWidth>(arrays.data[j], pack);
    }
#pragma unroll
    for (int u = 0; u < kElementwiseUnroll; ++u) {
      const int64_t pack = first + u * kElementwiseThreads;
      if (pack >= packs) break;
      UpdatePack(rule, g[u], state[u]);
#pragma unroll
      for (int j = 0; j < kArrays; ++j) StorePack(state[u][j], arrays.data[j], pack);
    }
  }
}

// Queues one pass of `rule`, which takes (float gradient, float (&element)[kArrays]). Errors name
// `operation`.
template <int kArrays, typename Rule>
absl::Status UpdateElements(const char* operation, int64_t n, const float* gradient,
                            const UpdatedArrays<kArrays>& arrays, const Rule& rule,
                            CudaStream& stream) {
  constexpr int64_t kPacksPerBlock = kElementwiseThreads * kElementwiseUnroll;
  bool is_aligned = AreAligned(sizeof(float4), gradient);
  for (float* array : arrays.data) is_aligned = is_aligned && AreAligned(sizeof(float4), array);
  const int64_t in_packs = is_aligned ? n / kPackWidth * kPackWidth : 0;
  absl::Status status =
      Launch(operation, stream, ElementwiseBlocks(in_packs / kPackWidth, kPacksPerBlock, stream),
             kElementwiseThreads, UpdateKernel<kPackWidth, kArrays, Rule>, in_packs, gradient,
             arrays, rule);
  if (!status.ok() || in_packs == n) return status;
  UpdatedArrays<kArrays> rest = arrays;
  for (float*& array : rest.data) array += in_packs;
  return Launch(operation, stream, ElementwiseBlocks(n - in_packs, kPacksPerBlock, stream),
                kElementwiseThreads, UpdateKernel<1, kArrays, Rule>, n - in_packs,
                gradient + in_packs, rest, rule);
}

}  // namespace capstan

#endif  // KERNELS_CUDA_UPDATE_ELEMENTS_H_
