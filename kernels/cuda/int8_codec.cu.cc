#include "kernels/cuda/int8_codec.h"

#include <cuda_runtime.h>

#include "common/base/status_macros.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/encode_sums.h"
#include "kernels/cuda/int8_block.h"
#include "kernels/cuda/launch.h"

namespace capstan {
namespace {

constexpr char kEncode[] = "int8 encoding";
constexpr char kDecode[] = "int8 decoding";
constexpr int kWarps = kEncodeThreads / kWarpThreads;
static_assert(kEncodeTile == kWarps * kInt8Block);

// The first pack of the lane's items of block `block`.
__device__ inline int64_t LanePack(int64_t block) {
  return block * (kInt8Block / kPackWidth) +
         threadIdx.x % kWarpThreads * (kInt8LaneItems / kPackWidth);
}

// A warp does a block of the codec. Bytes moved for each element: 5, and 8 more with a residual.
// At most 80 registers and 6144 bytes of shared memory.
template <bool kIsAligned>
__global__ void __launch_bounds__(kEncodeThreads)
    EncodeKernel(SliceToEncode slice, EncodeDraws draws, EncodeResult* partials) {
  const bool has_residual = slice.residual != nullptr;
  EncodeResult own;
  for (int64_t block = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
       block * kInt8Block < slice.n; block += int64_t{gridDim.x} * kWarps) {
    float values[kInt8LaneItems], sums[kInt8LaneItems], residual[kInt8LaneItems] = {};
    LoadItems<kIsAligned>(slice.n, slice.values, LanePack(block), values);
    if (has_residual) LoadItems<kIsAligned>(slice.n, slice.residual, LanePack(block), residual);
#pragma unroll
    for (int i = 0; i < kInt8LaneItems; ++i) {
      sums[i] = has_residual ? values[i] + residual[i] : values[i];
    }
    const Int8Lane lane = QuantizeInt8(sums, block, draws);
    StoreInt8(lane, slice.n, block, slice.bytes);
#pragma unroll
    for (int i = 0; i < kInt8LaneItems; ++i) {
      residual[i] = sums[i] - lane.Decoded(i);  // 0 beyond the end
      AddElement(has_residual, values[i], sums[i], residual[i], own);
    }
    if (has_residual) StoreItems<kIsAligned>(slice.n, residual, slice.residual, LanePack(block));
  }
  StoreBlockEncodeSum<kEncodeThreads>(own, &partials[blockIdx.x]);
}

// As the encoder. Bytes moved for each element: 5, and 4 more to add.
// At most 48 registers.
template <bool kAdds, bool kIsAligned>
__global__ void __launch_bounds__(kEncodeThreads)
    DecodeKernel(int64_t n, const uint8_t* bytes, float* values) {
  for (int64_t block = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
       block * kInt8Block < n; block += int64_t{gridDim.x} * kWarps) {
    const Int8Lane lane = LoadInt8(n, block, bytes);
    float result[kInt8LaneItems];
    if (kAdds) LoadItems<kIsAligned>(n, values, LanePack(block), result);
#pragma unroll
    for (int i = 0; i < kInt8LaneItems; ++i) {
      result[i] = kAdds ? result[i] + lane.Decoded(i) : lane.Decoded(i);
    }
    StoreItems<kIsAligned>(n, result, values, LanePack(block));
  }
}

template <bool kAdds>
absl::Status LaunchDecode(int64_t n, const uint8_t* bytes, float* values, CudaStream& stream) {
  return Launch(
      kDecode, stream, ElementwiseBlocks(n, kEncodeTile, stream), kEncodeThreads,
      AreAligned(sizeof(float4), values) ? DecodeKernel<kAdds, true> : DecodeKernel<kAdds, false>,
      n, bytes, values);
}

}  // namespace

size_t EncodeInt8ScratchBytes(int64_t n) {
  return static_cast<size_t>(EncodeBlocks(n)) * sizeof(EncodeResult);
}

absl::Status EncodeInt8(const SliceToEncode& slice, const EncodeDraws& draws, CudaStream& stream) {
  EncodeResult* const partials = static_cast<EncodeResult*>(slice.scratch);
  const bool is_aligned = AreAligned(sizeof(float4), slice.values, slice.residual);
  RETURN_IF_ERROR(Launch(kEncode, stream, EncodeBlocks(slice.n), kEncodeThreads,
                         is_aligned ? EncodeKernel<true> : EncodeKernel<false>, slice, draws,
                         partials));
  return AddEncodeSums(kEncode, EncodeBlocks(slice.n), partials, slice.result, stream);
}

absl::Status DecodeInt8(int64_t n, const uint8_t* bytes, float* values, CudaStream& stream) {
  return LaunchDecode<false>(n, bytes, values, stream);
}

absl::Status DecodeAddInt8(int64_t n, const uint8_t* bytes, float* sum, CudaStream& stream) {
  return LaunchDecode<true>(n, bytes, sum, stream);
}

}  // namespace capstan
