#include "kernels/arrays.h"

#include <cuda_runtime.h>

#include <cstddef>

#include "common/base/status_macros.h"
#include "common/tensor/host_device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"

namespace capstan {
namespace {

// Bytes moved for each element: 4 written.
// At most 40 registers.
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

CAPSTAN_HOST_DEVICE inline void Convert(float from, Bfloat16& to) { to = ToBfloat16(from); }
CAPSTAN_HOST_DEVICE inline void Convert(Bfloat16 from, float& to) { to = ToFloat32(from); }

// Bytes moved for each element: 6, one array read and the other written.
// At most 32 registers.
template <int kWidth, typename From, typename To>
__global__ void __launch_bounds__(kElementwiseThreads)
    ConvertKernel(int64_t n, const From* source, To* target) {
  constexpr int kPacksPerBlock = kElementwiseThreads * kElementwiseUnroll;
  const int64_t packs = n / kWidth;
  for (int64_t first = int64_t{blockIdx.x} * kPacksPerBlock + threadIdx.x; first < packs;
       first += int64_t{gridDim.x} * kPacksPerBlock) {
    Pack<From, kWidth> from[kElementwiseUnroll] = {};
#pragma unroll
    for (int u = 0; u < kElementwiseUnroll; ++u) {
      const int64_t pack = first + u * kElementwiseThreads;
      if (pack < packs) from[u] = LoadPack<kWidth>(source, pack);
    }
#pragma unroll
    for (int u = 0; u < kElementwiseUnroll; ++u) {
      const int64_t pack = first + u * kElementwiseThreads;
      if (pack >= packs) break;
      Pack<To, kWidth> to;
#pragma unroll
      for (int item = 0; item < kWidth; ++item) Convert(from[u].items[item], to.items[item]);
      StorePack(to, target, pack);
    }
  }
}

template <int kWidth, typename From, typename To>
absl::Status LaunchConvert(int64_t n, const From* source, To* target, CudaStream& stream) {
  const int64_t blocks =
      ElementwiseBlocks(n / kWidth, kElementwiseThreads * kElementwiseUnroll, stream);
  return Launch("conversion", stream, blocks, kElementwiseThreads, ConvertKernel<kWidth, From, To>,
                n, source, target);
}

template <typename From, typename To>
absl::Status ConvertAll(int64_t n, const From* source, To* target, CudaStream& stream) {
  // 8 and 16 bytes at a time.
  const bool is_aligned =
      AreAligned(sizeof(From) * kPackWidth, source) && AreAligned(sizeof(To) * kPackWidth, target);
  const int64_t in_packs = is_aligned ? n / kPackWidth * kPackWidth : 0;
  RETURN_IF_ERROR(LaunchConvert<kPackWidth>(in_packs, source, target, stream));
  return LaunchConvert<1>(n - in_packs, source + in_packs, target + in_packs, stream);
}

}  // namespace

absl::Status Fill(int64_t n, float value, float* values, CudaStream& stream) {
  const int64_t in_packs = AreAligned(sizeof(float4), values) ? n / kPackWidth * kPackWidth : 0;
  RETURN_IF_ERROR(LaunchFill<kPackWidth>(in_packs, value, values, stream));
  return LaunchFill<1>(n - in_packs, value, values + in_packs, stream);
}

absl::Status Copy(int64_t n, const float* source, float* target, CudaStream& stream) {
  if (n == 0) return absl::OkStatus();
  return stream.CopyOnDevice(source, static_cast<size_t>(n) * sizeof(float), target);
}

absl::Status ConvertToBfloat16(int64_t n, const float* source, Bfloat16* target,
                               CudaStream& stream) {
  return ConvertAll(n, source, target, stream);
}

absl::Status ConvertToFloat32(int64_t n, const Bfloat16* source, float* target,
                              CudaStream& stream) {
  return ConvertAll(n, source, target, stream);
}

}  // namespace capstan
