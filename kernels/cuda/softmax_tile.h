#ifndef KERNELS_CUDA_SOFTMAX_TILE_H_
#define KERNELS_CUDA_SOFTMAX_TILE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/softmax_row.h"

// Rows of few classes, one thread each, by way of shared memory. There they lie next to each other
// as in the array, and are yet read without conflicts. For .cu.cc files only.
namespace capstan {

// Small blocks: a dozen of them, each in another phase, fit on a multiprocessor.
constexpr int kTileSamples = 128;
constexpr int kTileLoads = 8;  // under way in each thread
constexpr int kTileGroup = 2;  // scores of a row between two checks for its end

// The place of a tile's elements in shared memory. Rows have an odd length, so that the threads of
// a warp, one a row, hit 32 different banks.
struct TileLayout {
  int classes;
  int row_length;
  unsigned gaps;  // in each element, times 2^32: one a row when `classes` is even, else none

  __device__ explicit TileLayout(int class_count)
      : classes(class_count),
        row_length(class_count | 1),
        gaps(class_count % 2 == 0 ? 0xffffffffu / class_count + 1 : 0) {}
  // Exact for the elements of a tile, because the rounding of `gaps` adds up to less than one.
  __device__ int Position(int element) const {
    return element + static_cast<int>((uint64_t{gaps} * static_cast<unsigned>(element)) >> 32);
  }
};

__device__ inline void LoadTile(const float* scores, int elements, const TileLayout& layout,
                                float* tile) {
  for (int first = threadIdx.x; first < elements; first += kTileLoads * kTileSamples) {
    float loaded[kTileLoads] = {};
#pragma unroll
    for (int u = 0; u < kTileLoads; ++u) {
      const int element = first + u * kTileSamples;
      if (element < elements) loaded[u] = scores[element];
    }
#pragma unroll
    for (int u = 0; u < kTileLoads; ++u) {
      const int element = first + u * kTileSamples;
      if (element < elements) tile[layout.Position(element)] = loaded[u];
    }
  }
}

__device__ inline void StoreTile(const float* tile, int elements, const TileLayout& layout,
                                 float* gradient) {
  for (int first = threadIdx.x; first < elements; first += kTileLoads * kTileSamples) {
#pragma unroll
    for (int u = 0; u < kTileLoads; ++u) {
      const int element = first + u * kTileSamples;
      if (element < elements) gradient[element] = tile[layout.Position(element)];
    }
  }
}

// One sample by one thread: its scores, in `row`, become its gradient. Registers hold its scores,
// at most `kMaxClasses`.
template <int kMaxClasses>
__device__ void SoftmaxOfTileRow(int classes, double scale, int32_t sample_label, float* row,
                                 SumAndCount& own) {
  const RowLabel label = MakeRowLabel(sample_label, classes);
  const float label_score = label.is_class ? row[label.index] : 0.0f;
  float scores[kMaxClasses];
  float maximum = kMinusInfinity;
#pragma unroll
  for (int i = 0; i < kMaxClasses; i += kTileGroup) {
    if (i >= classes) break;
#pragma unroll
    for (int j = i; j < i + kTileGroup; ++j) {
      scores[j] = j < classes ? row[j] : kMinusInfinity;
      maximum = fmaxf(maximum, scores[j]);
    }
  }
  RowTotal total = {0, 0};
#pragma unroll
  for (int i = 0; i < kMaxClasses; i += kTileGroup) {
    if (i >= classes) break;
    float sum = 0;
#pragma unroll
    for (int j = i; j < i + kTileGroup; ++j) {
      total.earlier += IsEarlierMaximum(scores[j], maximum, j, label.index);
      scores[j] = expf(scores[j] - maximum);
      sum += scores[j];
    }
    total.sum += sum;
  }
  const RowFactor factor = MakeRowFactor(scale, total.sum, label_score, maximum);
#pragma unroll
  for (int i = 0; i < kMaxClasses; i += kTileGroup) {
    if (i >= classes) break;
#pragma unroll
    for (int j = i; j < i + kTileGroup; ++j) {
      if (j < classes) row[j] = scores[j] * factor.others;
    }
  }
  if (label.is_class) {
    row[label.index] = factor.label;
    AddSample(total, label_score, maximum, own);
  } else {
    own.sum = kNan;
  }
}

}  // namespace capstan

#endif  // KERNELS_CUDA_SOFTMAX_TILE_H_
