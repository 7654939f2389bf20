#include "kernels/bias_relu.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"

namespace capstan {
namespace {

constexpr int kThreads = kElementwiseThreads;
constexpr int kWarp = 32;
// A thread loads this many rows at once: 4 packs of each array are under way.
constexpr int kUnroll = 4;
// The least rows that a block sums, the most blocks, and the most rows of partial sums. The blocks
// are enough for their ends to even out, and few enough for a cheap second phase. All are
// constants: the order of the sum depends on the sizes only.
constexpr int64_t kMinRows = 128;
constexpr int64_t kMaxBlocks = 4096;
constexpr int64_t kMaxPartials = 512;

// How the threads of a block lie over a matrix: `lanes` packs wide, up to a whole warp, and
// kThreads / lanes rows high. `tiles` of them side by side cover a row.
struct Tiling {
  int width;      // elements in a pack
  int lanes;      // a power of 2
  int64_t packs;  // in a row
  int64_t tiles;
};

// With the widest packs for these columns. The shape decides the order of sums.
Tiling MakeTiling(int64_t columns) {
  Tiling tiling;
  tiling.width = columns % kPackWidth == 0 ? kPackWidth : 1;
  tiling.packs = columns / tiling.width;
  tiling.lanes = 1;
  while (tiling.lanes < kWarp && tiling.lanes < tiling.packs) tiling.lanes *= 2;
  tiling.tiles = (tiling.packs + tiling.lanes - 1) / tiling.lanes;
  return tiling;
}

// The same rows for each block, with single elements: for unaligned arrays.
Tiling WithoutPacks(Tiling tiling) {
  tiling.packs *= tiling.width;
  tiling.width = 1;
  tiling.tiles = (tiling.packs + tiling.lanes - 1) / tiling.lanes;
  return tiling;
}

// The number of rows of partial sums: as many blocks share a column.
int64_t PartialCount(int64_t rows, int64_t columns) {
  const int64_t most = std::clamp<int64_t>(kMaxBlocks / MakeTiling(columns).tiles, 1, kMaxPartials);
  return std::clamp<int64_t>((rows + kMinRows - 1) / kMinRows, 1, most);
}

// A thread's place in a tiled matrix.
struct Place {
  int64_t pack;  // its pack in the row
  int64_t part;  // number of its block's group of rows
  int row;       // its row among the block's
};

__device__ inline Place ThisPlace(const Tiling& tiling) {
  const int lane = static_cast<int>(threadIdx.x) % tiling.lanes;
  return {blockIdx.x % tiling.tiles * tiling.lanes + lane, blockIdx.x / tiling.tiles,
          static_cast<int>(threadIdx.x) / tiling.lanes};
}

// Bytes moved for each element: 4 read, 4 written. The bias stays in registers.
// At most 56 registers.
template <int kWidth, bool kIsRelu>
__global__ void __launch_bounds__(kThreads)
    AddBiasKernel(int64_t rows, Tiling tiling, const float* bias, float* values) {
  const Place place = ThisPlace(tiling);
  if (place.pack >= tiling.packs) return;
  const int height = kThreads / tiling.lanes;
  const int64_t parts = gridDim.x / tiling.tiles;
  const Pack<float, kWidth> addend = LoadPack<kWidth>(bias, place.pack);
  for (int64_t first = place.part * height * kUnroll + place.row; first < rows;
       first += parts * height * kUnroll) {
    Pack<float, kWidth> sums[kUnroll] = {};
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t row = first + u * height;
      if (row < rows) sums[u] = LoadPack<kWidth>(values, row * tiling.packs + place.pack);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t row = first + u * height;
      if (row >= rows) break;
#pragma unroll
      for (int item = 0; item < kWidth; ++item) {
        const float sum = sums[u].items[item] + addend.items[item];
        sums[u].items[item] = kIsRelu && sum < 0.0f ? 0.0f : sum;
      }
      StorePack(sums[u], values, row * tiling.packs + place.pack);
    }
  }
}

// Adds the block's threads of one lane in a tree; the result is in row 0.
template <int kWidth>
__device__ Pack<float, kWidth> SumOfBlockRows(Pack<float, kWidth> own, int lanes) {
  __shared__ Pack<float, kWidth> shared[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  for (int distance = kThreads / 2; distance >= lanes; distance /= 2) {
    shared[thread] = own;
    __syncthreads();
    if (thread < distance) {
#pragma unroll
      for (int item = 0; item < kWidth; ++item) {
        own.items[item] += shared[thread + distance].items[item];
      }
    }
    __syncthreads();
  }
  return own;
}

// sums[part, column] = the sum of the column over the `part_rows` rows of the part. kIsRelu masks
// them on the way. Bytes moved for each element: 4 read; with kIsRelu 8 read, 4 written.
// At most 80 registers and 4096 bytes of shared memory.
template <int kWidth, bool kIsRelu>
__global__ void __launch_bounds__(kThreads)
    ColumnSumKernel(int64_t rows, int64_t part_rows, Tiling tiling, const float* outputs,
                    float* gradient, float* sums) {
  const Place place = ThisPlace(tiling);
  const int height = kThreads / tiling.lanes;
  const int64_t part_end = (place.part + 1) * part_rows;
  const int64_t end = place.pack >= tiling.packs ? 0 : part_end < rows ? part_end : rows;
  Pack<float, kWidth> sum = {};
  for (int64_t first = place.part * part_rows + place.row; first < end; first += height * kUnroll) {
    Pack<float, kWidth> addends[kUnroll] = {};
    Pack<float, kWidth> gates[kUnroll] = {};
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t row = first + u * height;
      if (row >= end) break;
      addends[u] = LoadPack<kWidth>(gradient, row * tiling.packs + place.pack);
      if (kIsRelu) gates[u] = LoadPack<kWidth>(outputs, row * tiling.packs + place.pack);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t row = first + u * height;
      if (row >= end) break;
#pragma unroll
      for (int item = 0; item < kWidth; ++item) {
        if (kIsRelu && !(gates[u].items[item] > 0.0f)) addends[u].items[item] = 0.0f;
        sum.items[item] += addends[u].items[item];
      }
      if (kIsRelu) StorePack(addends[u], gradient, row * tiling.packs + place.pack);
    }
  }
  sum = SumOfBlockRows(sum, tiling.lanes);
  if (place.row > 0 || place.pack >= tiling.packs) return;
  StorePack(sum, sums, place.part * tiling.packs + place.pack);
}

absl::Status LaunchColumnSum(int64_t rows, int64_t columns, int64_t parts, bool is_relu,
                             const float* outputs, float* gradient, float* sums,
                             CudaStream& stream) {
  const bool is_aligned = AreAligned(sizeof(float4), gradient, sums) &&
                          (!is_relu || AreAligned(sizeof(float4), outputs));
  Tiling tiling = MakeTiling(columns);
  if (!is_aligned) tiling = WithoutPacks(tiling);
  auto* const kernel =
      tiling.width == 1
          ? (is_relu ? ColumnSumKernel<1, true> : ColumnSumKernel<1, false>)
          : (is_relu ? ColumnSumKernel<kPackWidth, true> : ColumnSumKernel<kPackWidth, false>);
  const int64_t part_rows = (rows + parts - 1) / parts;
  return Launch("bias gradient", stream, tiling.tiles * parts, kThreads, kernel, rows, part_rows,
                tiling, outputs, gradient, sums);
}

}  // namespace

absl::Status AddBias(int64_t rows, int64_t columns, Activation activation, const float* bias,
                     float* values, CudaStream& stream) {
  if (rows == 0 || columns == 0) return absl::OkStatus();
  Tiling tiling = MakeTiling(columns);
  if (!AreAligned(sizeof(float4), bias, values)) tiling = WithoutPacks(tiling);
  const bool is_relu = activation == Activation::kRelu;
  auto* const kernel =
      tiling.width == 1
          ? (is_relu ? AddBiasKernel<1, true> : AddBiasKernel<1, false>)
          : (is_relu ? AddBiasKernel<kPackWidth, true> : AddBiasKernel<kPackWidth, false>);
  const int64_t block_rows = kThreads / tiling.lanes * kUnroll;
  const int64_t parts =
      std::max<int64_t>(1, ElementwiseBlocks((rows + block_rows - 1) / block_rows * tiling.tiles,
                                             /*items_per_block=*/1, stream) /
                               tiling.tiles);
  return Launch("bias", stream, tiling.tiles * parts, kThreads, kernel, rows, tiling, bias, values);
}

size_t AddBiasBackwardScratchBytes(int64_t rows, int64_t columns, const CudaStream& /*stream*/) {
  if (rows == 0 || columns == 0) return 0;
  const int64_t partials = PartialCount(rows, columns);
  return partials == 1 ? 0 : static_cast<size_t>(partials * columns) * sizeof(float);
}

absl::Status AddBiasBackward(int64_t rows, int64_t columns, Activation activation,
                             const float* outputs, float* gradient, float* bias_gradient,
                             void* scratch, CudaStream& stream) {
  if (columns == 0) return absl::OkStatus();
  const bool is_relu = activation == Activation::kRelu;
  const int64_t partials = PartialCount(rows, columns);
  float* const first_sums = partials == 1 ? bias_gradient : static_cast<float*>(scratch);
  absl::Status status =
      LaunchColumnSum(rows, columns, partials, is_relu, outputs, gradient, first_sums, stream);
  if (!status.ok() || partials == 1) return status;
  return LaunchColumnSum(/*rows=*/partials, columns, /*parts=*/1, /*is_relu=*/false,
                         /*outputs=*/nullptr, first_sums, bias_gradient, stream);
}

}  // namespace capstan
