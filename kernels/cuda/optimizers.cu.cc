#include "kernels/optimizers.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"

namespace capstan {
namespace {

// The arrays of a rule, as a kernel's parameter.
template <typename Rule>
struct UpdatedArrays {
  static constexpr int kCount = 1 + Rule::kStateCount;
  float* data[kCount];
};

template <typename Rule, size_t... j>
__device__ void UpdateElement(const Rule& rule, float gradient, float* element,
                              std::index_sequence<j...>) {
  rule(gradient, element[j]...);
}

template <int kWidth, int kArrays, typename Rule>
__device__ void UpdatePack(const Rule& rule, const Pack<float, kWidth>& gradient,
                           Pack<float, kWidth> (&arrays)[kArrays]) {
#pragma unroll
  for (int item = 0; item < kWidth; ++item) {
    float element[kArrays];
#pragma unroll
    for (int j = 0; j < kArrays; ++j) element[j] = arrays[j].items[item];
    UpdateElement(rule, gradient.items[item], element, std::make_index_sequence<kArrays>());
#pragma unroll
    for (int j = 0; j < kArrays; ++j) arrays[j].items[item] = element[j];
  }
}

// Bytes moved for each element: 4 read for `gradient`, 8 read and written for each array.
// At most 64 registers.
template <int kWidth, typename Rule>
__global__ void __launch_bounds__(kElementwiseThreads)
    UpdateKernel(int64_t n, const float* gradient, UpdatedArrays<Rule> arrays, Rule rule) {
  constexpr int kArrays = UpdatedArrays<Rule>::kCount;
  constexpr int kPacksPerBlock = kElementwiseThreads * kElementwiseUnroll;
  const int64_t packs = n / kWidth;
  for (int64_t first = int64_t{blockIdx.x} * kPacksPerBlock + threadIdx.x; first < packs;
       first += int64_t{gridDim.x} * kPacksPerBlock) {
    Pack<float, kWidth> g[kElementwiseUnroll] = {};
    Pack<float, kWidth> loaded[kElementwiseUnroll][kArrays] = {};
#pragma unroll
    for (int u = 0; u < kElementwiseUnroll; ++u) {
      const int64_t pack = first + u * kElementwiseThreads;
      if (pack >= packs) break;
      g[u] = LoadPack<kWidth>(gradient, pack);
#pragma unroll
      for (int j = 0; j < kArrays; ++j) loaded[u][j] = LoadPack<kWidth>(arrays.data[j], pack);
    }
#pragma unroll
    for (int u = 0; u < kElementwiseUnroll; ++u) {
      const int64_t pack = first + u * kElementwiseThreads;
      if (pack >= packs) break;
      UpdatePack(rule, g[u], loaded[u]);
#pragma unroll
      for (int j = 0; j < kArrays; ++j) StorePack(loaded[u][j], arrays.data[j], pack);
    }
  }
}

template <int kWidth, typename Rule>
absl::Status LaunchUpdate(const Rule& rule, int64_t n, const float* gradient,
                          const UpdatedArrays<Rule>& arrays, CudaStream& stream) {
  constexpr int64_t kPacksPerBlock = kElementwiseThreads * kElementwiseUnroll;
  return Launch(Rule::kName, stream, ElementwiseBlocks(n / kWidth, kPacksPerBlock, stream),
                kElementwiseThreads, UpdateKernel<kWidth, Rule>, n, gradient, arrays, rule);
}

}  // namespace

template <typename Rule>
absl::Status ApplyRule(const Rule& rule, int64_t n, const float* gradient,
                       float* const (&arrays)[1 + Rule::kStateCount], CudaStream& stream) {
  UpdatedArrays<Rule> updated;
  bool is_aligned = AreAligned(sizeof(float4), gradient);
  for (int j = 0; j < UpdatedArrays<Rule>::kCount; ++j) {
    updated.data[j] = arrays[j];
    is_aligned = is_aligned && AreAligned(sizeof(float4), arrays[j]);
  }
  const int64_t in_packs = is_aligned ? n / kPackWidth * kPackWidth : 0;
  absl::Status status = LaunchUpdate<kPackWidth>(rule, in_packs, gradient, updated, stream);
  if (!status.ok() || in_packs == n) return status;
  for (float*& array : updated.data) array += in_packs;
  return LaunchUpdate<1>(rule, n - in_packs, gradient + in_packs, updated, stream);
}

template absl::Status ApplyRule(const SgdRule&, int64_t, const float*, float* const (&)[1],
                                CudaStream&);
template absl::Status ApplyRule(const MomentumRule&, int64_t, const float*, float* const (&)[2],
                                CudaStream&);
template absl::Status ApplyRule(const NesterovRule&, int64_t, const float*, float* const (&)[2],
                                CudaStream&);
template absl::Status ApplyRule(const AdagradRule&, int64_t, const float*, float* const (&)[2],
                                CudaStream&);
template absl::Status ApplyRule(const AdamRule&, int64_t, const float*, float* const (&)[3],
                                CudaStream&);
template absl::Status ApplyRule(const AmsgradRule&, int64_t, const float*, float* const (&)[4],
                                CudaStream&);
template absl::Status ApplyRule(const AdamWRule&, int64_t, const float*, float* const (&)[3],
                                CudaStream&);
template absl::Status ApplyRule(const AmsgradWRule&, int64_t, const float*, float* const (&)[4],
                                CudaStream&);
template absl::Status ApplyRule(const RmspropRule<false, false>&, int64_t, const float*,
                                float* const (&)[2], CudaStream&);
template absl::Status ApplyRule(const RmspropRule<false, true>&, int64_t, const float*,
                                float* const (&)[3], CudaStream&);
template absl::Status ApplyRule(const RmspropRule<true, false>&, int64_t, const float*,
                                float* const (&)[3], CudaStream&);
template absl::Status ApplyRule(const RmspropRule<true, true>&, int64_t, const float*,
                                float* const (&)[4], CudaStream&);
template absl::Status ApplyRule(const LionRule&, int64_t, const float*, float* const (&)[2],
                                CudaStream&);

}  // namespace capstan
