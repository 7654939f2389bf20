#ifndef KERNELS_CUDA_INT8_BLOCK_H_
#define KERNELS_CUDA_INT8_BLOCK_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/block_sum.h"
#include "kernels/cuda/philox.h"
#include "kernels/cuda/slice_encoding.h"
#include "kernels/cuda/value_bits.h"

// A block of the codec int8: a warp encodes it, and each lane has 8 neighbours, which share the
// draws of one Philox block. For .cu.cc files only.
namespace capstan {

constexpr int kInt8LaneItems = 8;
constexpr int kInt8Block = kWarpThreads * kInt8LaneItems;
constexpr int kInt8ScaleBytes = sizeof(float);
constexpr int kInt8BlockBytes = kInt8ScaleBytes + kInt8Block;

struct Int8Lane {
  float scale;  // the same in all lanes
  int quantized[kInt8LaneItems];

  __device__ float Decoded(int item) const { return scale * static_cast<float>(quantized[item]); }
};

// The largest absolute value of the warp, in all lanes.
__device__ inline float WarpMax(const float (&items)[kInt8LaneItems]) {
  uint32_t max = 0;
#pragma unroll
  for (int item = 0; item < kInt8LaneItems; ++item) {
    const uint32_t magnitude = MagnitudeOf(items[item]);
    max = magnitude > max ? magnitude : max;
  }
#pragma unroll
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_xor_sync(kWholeWarp, max, distance);
    max = other > max ? other : max;
  }
  return FloatOf(max);
}

// Encodes block `block`. Called by all lanes of a warp; items beyond the end are 0.
__device__ inline Int8Lane QuantizeInt8(const float (&items)[kInt8LaneItems], int64_t block,
                                        const EncodeDraws& draws) {
  constexpr float kSmallestMax = 0x1p-100f;
  constexpr float kLargestScale = 0x1.020406p121f;  // of those whose product with 127 is finite
  const float max = WarpMax(items);
  Int8Lane lane = {};
  if (max < kSmallestMax) return lane;
  lane.scale = fminf(max / 127.0f, kLargestScale);
  const float inverse = 127.0f / max;
  const uint64_t of_table =
      draws.first_block + static_cast<uint64_t>(block) * kWarpThreads + threadIdx.x % kWarpThreads;
  const PhiloxBlock random =
      Philox({{static_cast<uint32_t>(of_table), static_cast<uint32_t>(of_table >> 32),
               static_cast<uint32_t>(draws.step), static_cast<uint32_t>(draws.step >> 32)}},
             draws.key[0], draws.key[1]);
#pragma unroll
  for (int item = 0; item < kInt8LaneItems; ++item) {
    const uint32_t draw = random.words[item / 2] >> (item % 2 * 16) & 0xffff;
    const float u = (static_cast<float>(draw) + 0.5f) * 0x1p-16f;  // exact
    const float rounded = floorf(items[item] * inverse + u);
    // A NaN becomes -127.
    lane.quantized[item] = static_cast<int>(fminf(fmaxf(rounded, -127.0f), 127.0f));
  }
  return lane;
}

// Stores the lane's part of block `block` of `n` values to `bytes`, which are aligned to 4.
__device__ inline void StoreInt8(const Int8Lane& lane, int64_t n, int64_t block, uint8_t* bytes) {
  const int number = static_cast<int>(threadIdx.x) % kWarpThreads;
  uint8_t* const begin = bytes + block * kInt8BlockBytes;
  if (number == 0) *reinterpret_cast<float*>(begin) = lane.scale;
  const int64_t left = n - block * kInt8Block - number * kInt8LaneItems;
  uint8_t* const own = begin + kInt8ScaleBytes + number * kInt8LaneItems;
  if (left >= kInt8LaneItems) {
#pragma unroll
    for (int word = 0; word < kInt8LaneItems / 4; ++word) {
      uint32_t bits = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        bits |= (static_cast<uint32_t>(lane.quantized[4 * word + i]) & 0xff) << (8 * i);
      }
      reinterpret_cast<uint32_t*>(own)[word] = bits;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kInt8LaneItems; ++i) {
    if (i < left) own[i] = static_cast<uint8_t>(lane.quantized[i]);
  }
}

// The lane's part of block `block` of `n` values; 0 beyond the end.
__device__ inline Int8Lane LoadInt8(int64_t n, int64_t block, const uint8_t* bytes) {
  const int number = static_cast<int>(threadIdx.x) % kWarpThreads;
  const uint8_t* const begin = bytes + block * kInt8BlockBytes;
  const int64_t left = n - block * kInt8Block - number * kInt8LaneItems;
  const uint8_t* const own = begin + kInt8ScaleBytes + number * kInt8LaneItems;
  Int8Lane lane = {};
  lane.scale = *reinterpret_cast<const float*>(begin);
  if (left >= kInt8LaneItems) {
#pragma unroll
    for (int word = 0; word < kInt8LaneItems / 4; ++word) {
      const uint32_t bits = reinterpret_cast<const uint32_t*>(own)[word];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        lane.quantized[4 * word + i] = static_cast<int8_t>(bits >> (8 * i) & 0xff);
      }
    }
    return lane;
  }
#pragma unroll
  for (int i = 0; i < kInt8LaneItems; ++i) {
    if (i < left) lane.quantized[i] = static_cast<int8_t>(own[i]);
  }
  return lane;
}

}  // namespace capstan

#endif  // KERNELS_CUDA_INT8_BLOCK_H_
