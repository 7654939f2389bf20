#include "kernels/cuda/bfloat16_codec.h"

#include <cuda_runtime.h>

#include "common/base/status_macros.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/encode_sums.h"
#include "kernels/cuda/finite_bfloat16.h"
#include "kernels/cuda/launch.h"

namespace capstan {
namespace {

constexpr char kEncode[] = "bfloat16 encoding";
constexpr char kDecode[] = "bfloat16 decoding";
constexpr int kPacks = kEncodeItems / kPackWidth;  // under way in each thread
constexpr int kPacksPerBlock = kEncodeThreads * kPacks;

template <bool kIsAligned>
__device__ void EncodePack(const SliceToEncode& slice, int64_t pack,
                           const Pack<float, kPackWidth>& values,
                           const Pack<float, kPackWidth>& residual, EncodeResult& own) {
  const bool has_residual = slice.residual != nullptr;
  Pack<Bfloat16, kPackWidth> encoded;
  Pack<float, kPackWidth> rest;
#pragma unroll
  for (int item = 0; item < kPackWidth; ++item) {
    const float value = values.items[item];
    const float sum = has_residual ? value + residual.items[item] : value;
    encoded.items[item] = ToFiniteBfloat16(sum);
    rest.items[item] = sum - ToFloat32(encoded.items[item]);
    AddElement(has_residual, value, sum, rest.items[item], own);
  }
  StorePackOf<true>(slice.n, encoded, reinterpret_cast<Bfloat16*>(slice.bytes), pack);
  if (has_residual) StorePackOf<kIsAligned>(slice.n, rest, slice.residual, pack);
}

// Bytes moved for each element: 6, and 8 more with a residual.
// At most 64 registers and 6144 bytes of shared memory.
template <bool kIsAligned>
__global__ void __launch_bounds__(kEncodeThreads)
    EncodeKernel(SliceToEncode slice, EncodeResult* partials) {
  EncodeResult own;
  for (int64_t first = int64_t{blockIdx.x} * kPacksPerBlock + threadIdx.x;
       first * kPackWidth < slice.n; first += int64_t{gridDim.x} * kPacksPerBlock) {
    Pack<float, kPackWidth> values[kPacks];
    Pack<float, kPackWidth> residual[kPacks] = {};
#pragma unroll
    for (int u = 0; u < kPacks; ++u) {
      const int64_t pack = first + u * kEncodeThreads;
      values[u] = LoadPackOf<kIsAligned>(slice.n, slice.values, pack);
      if (slice.residual != nullptr) {
        residual[u] = LoadPackOf<kIsAligned>(slice.n, slice.residual, pack);
      }
    }
#pragma unroll
    for (int u = 0; u < kPacks; ++u) {
      EncodePack<kIsAligned>(slice, first + u * kEncodeThreads, values[u], residual[u], own);
    }
  }
  StoreBlockEncodeSum<kEncodeThreads>(own, &partials[blockIdx.x]);
}

// Bytes moved for each element: 6, and 4 more to add.
// At most 32 registers.
template <bool kAdds, bool kIsAligned>
__global__ void __launch_bounds__(kElementwiseThreads)
    DecodeKernel(int64_t n, const Bfloat16* encoded, float* values) {
  for (int64_t pack = int64_t{blockIdx.x} * kElementwiseThreads + threadIdx.x;
       pack * kPackWidth < n; pack += int64_t{gridDim.x} * kElementwiseThreads) {
    Pack<float, kPackWidth> result;
    if (kAdds) result = LoadPackOf<kIsAligned>(n, values, pack);
    Pack<Bfloat16, kPackWidth> from;
    if ((pack + 1) * kPackWidth <= n) from = LoadPack<kPackWidth>(encoded, pack);
#pragma unroll
    for (int item = 0; item < kPackWidth; ++item) {
      const int64_t i = pack * kPackWidth + item;
      if ((pack + 1) * kPackWidth > n && i < n) from.items[item] = encoded[i];
      const float decoded = ToFloat32(from.items[item]);
      result.items[item] = kAdds ? result.items[item] + decoded : decoded;
    }
    StorePackOf<kIsAligned>(n, result, values, pack);
  }
}

template <bool kAdds>
absl::Status LaunchDecode(int64_t n, const uint8_t* bytes, float* values, CudaStream& stream) {
  const int64_t packs = (n + kPackWidth - 1) / kPackWidth;
  return Launch(
      kDecode, stream, ElementwiseBlocks(packs, kElementwiseThreads, stream), kElementwiseThreads,
      AreAligned(sizeof(float4), values) ? DecodeKernel<kAdds, true> : DecodeKernel<kAdds, false>,
      n, reinterpret_cast<const Bfloat16*>(bytes), values);
}

}  // namespace

size_t EncodeBfloat16ScratchBytes(int64_t n) {
  return static_cast<size_t>(EncodeBlocks(n)) * sizeof(EncodeResult);
}

absl::Status EncodeBfloat16(const SliceToEncode& slice, CudaStream& stream) {
  EncodeResult* const partials = static_cast<EncodeResult*>(slice.scratch);
  const bool is_aligned = AreAligned(sizeof(float4), slice.values, slice.residual);
  RETURN_IF_ERROR(Launch(kEncode, stream, EncodeBlocks(slice.n), kEncodeThreads,
                         is_aligned ? EncodeKernel<true> : EncodeKernel<false>, slice, partials));
  return AddEncodeSums(kEncode, EncodeBlocks(slice.n), partials, slice.result, stream);
}

absl::Status DecodeBfloat16(int64_t n, const uint8_t* bytes, float* values, CudaStream& stream) {
  return LaunchDecode<false>(n, bytes, values, stream);
}

absl::Status DecodeAddBfloat16(int64_t n, const uint8_t* bytes, float* sum, CudaStream& stream) {
  return LaunchDecode<true>(n, bytes, sum, stream);
}

}  // namespace capstan
