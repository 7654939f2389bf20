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

// `elements` is a multiple of kWidth, and `scores` is aligned to a pack of kWidth.
template <int kWidth>
constexpr int kTileLoads = kWidth == 1 ? 8 : 4;  // packs under way in each thread

template <int kWidth>
__device__ inline void LoadTile(const float* scores, int elements, const TileLayout& layout,
                                float* tile) {
  constexpr int kLoads = kTileLoads<kWidth>;
  for (int first = threadIdx.x; first * kWidth < elements; first += kLoads * kTileSamples) {
    Pack<float, kWidth> loaded[kLoads] = {};
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int pack = first + u * kTileSamples;
      if (pack * kWidth < elements) loaded[u] = LoadPack<kWidth>(scores, pack);
    }
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int element = (first + u * kTileSamples) * kWidth;
      if (element >= elements) continue;
#pragma unroll
      for (int item = 0; item < kWidth; ++item) {
        tile[layout.Position(element + item)] = loaded[u].items[item];
      }
    }
  }
}

template <int kWidth>
__device__ inline void StoreTile(const float* tile, int elements, const TileLayout& layout,
                                 float* gradient) {
  constexpr int kStores = kTileLoads<kWidth>;
  for (int first = threadIdx.x; first * kWidth < elements; first += kStores * kTileSamples) {
#pragma unroll
    for (int u = 0; u < kStores; ++u) {
      const int pack = first + u * kTileSamples;
      if (pack * kWidth >= elements) continue;
      Pack<float, kWidth> values;
#pragma unroll
      for (int item = 0; item < kWidth; ++item) {
        values.items[item] = tile[layout.Position(pack * kWidth + item)];
      }
      StorePack(values, gradient, pack);
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
  if (label_score == maximum) {
#pragma unroll
    for (int i = 0; i < kMaxClasses; ++i) {
      if (i >= label.index) break;
      total.earlier += scores[i] == maximum ? 1 : 0;
    }
  }
#pragma unroll
  for (int i = 0; i < kMaxClasses; i += kTileGroup) {
    if (i >= classes) break;
    float sum = 0;
#pragma unroll
    for (int j = i; j < i + kTileGroup; ++j) {
      scores[j] = expf(scores[j] - maximum);
      sum += scores[j];
    }
    total.sum += sum;
  }
  const double factor = scale / total.sum;
#pragma unroll
  for (int i = 0; i < kMaxClasses; i += kTileGroup) {
    if (i >= classes) break;
#pragma unroll
    for (int j = i; j < i + kTileGroup; ++j) {
      if (j < classes) row[j] = scores[j] * static_cast<float>(factor);
    }
  }
  if (label.is_class) {
    row[label.index] = LabelGradient(scale, factor, label_score, maximum);
    AddSample(total, label_score, maximum, own);
  } else {
    own.sum = kNan;
  }
}

}  // namespace capstan

#endif  // KERNELS_CUDA_SOFTMAX_TILE_H_
