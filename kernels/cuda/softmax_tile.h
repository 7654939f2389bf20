#ifndef KERNELS_CUDA_SOFTMAX_TILE_H_
#define KERNELS_CUDA_SOFTMAX_TILE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/softmax_row.h"

// Rows of few classes, one thread each, by way of shared memory. There they lie next to each other
// as in the array, and are yet read without conflicts. For .cu.cc files only.
namespace capstan {

// Small blocks: six to eight of them, each in another phase, fit on a multiprocessor.
constexpr int kTileSamples = 128;

// Scores of a row between two checks for its end.
constexpr int kTileGroup = 2;

// A tile in shared memory. A thread accesses `kWidth` neighbours at once: 2 of an even number of
// classes, else 1. Rows are an odd number of such accesses long, so that the threads of a warp, one
// a row, hit different banks.
template <int kWidth>
struct TileLayout {
  int classes;
  int row_length;
  unsigned gaps;  // in each element, times 2^32: one a row if rows are longer than `classes`

  __device__ explicit TileLayout(int class_count) : classes(class_count) {
    const bool has_gaps = class_count / kWidth % 2 == 0;
    row_length = has_gaps ? class_count + kWidth : class_count;
    gaps = has_gaps ? 0xffffffffu / class_count + 1 : 0;
  }

  // The place of an element. Exact for those of a tile, because the rounding of `gaps` adds up to
  // less than one.
  __device__ int Place(int element) const {
    if constexpr (kWidth == 1) return element;
    const uint64_t gaps_before = (uint64_t{gaps} * static_cast<unsigned>(element)) >> 32;
    return element + kWidth * static_cast<int>(gaps_before);
  }

  // Elements from `element` on, a multiple of their number.
  template <int kCount>
  __device__ Pack<float, kCount> Load(const float* tile, int element) const {
    constexpr int kPart = kCount < kWidth ? kCount : kWidth;
    Pack<float, kCount> values;
#pragma unroll
    for (int item = 0; item < kCount; item += kPart) {
      const auto part = LoadPack<kPart>(tile + Place(element + item), 0);
#pragma unroll
      for (int i = 0; i < kPart; ++i) values.items[item + i] = part.items[i];
    }
    return values;
  }
  template <int kCount>
  __device__ void Store(const Pack<float, kCount>& values, float* tile, int element) const {
    constexpr int kPart = kCount < kWidth ? kCount : kWidth;
#pragma unroll
    for (int item = 0; item < kCount; item += kPart) {
      Pack<float, kPart> part;
#pragma unroll
      for (int i = 0; i < kPart; ++i) part.items[i] = values.items[item + i];
      StorePack(part, tile + Place(element + item), 0);
    }
  }
};

template <int kPack>
constexpr int kTileLoads = kPack == 1 ? 8 : 4;  // packs under way in each thread

// `elements` is a multiple of kPack, and `scores` is aligned to a pack.
template <int kPack, int kWidth>
__device__ inline void LoadTile(const float* scores, int elements, const TileLayout<kWidth>& layout,
                                float* tile) {
  constexpr int kLoads = kTileLoads<kPack>;
  for (int first = threadIdx.x; first * kPack < elements; first += kLoads * kTileSamples) {
    Pack<float, kPack> loaded[kLoads] = {};
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int pack = first + u * kTileSamples;
      if (pack * kPack < elements) loaded[u] = LoadPack<kPack>(scores, pack);
    }
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int element = (first + u * kTileSamples) * kPack;
      if (element < elements) layout.Store(loaded[u], tile, element);
    }
  }
}

template <int kPack, int kWidth>
__device__ inline void StoreTile(const float* tile, int elements, const TileLayout<kWidth>& layout,
                                 float* gradient) {
  constexpr int kStores = kTileLoads<kPack>;
  for (int first = threadIdx.x; first * kPack < elements; first += kStores * kTileSamples) {
#pragma unroll
    for (int u = 0; u < kStores; ++u) {
      const int pack = first + u * kTileSamples;
      if (pack * kPack >= elements) continue;
      StorePack(layout.template Load<kPack>(tile, pack * kPack), gradient, pack);
    }
  }
}

__device__ inline void PrefetchTile(const float* scores, int elements) {
  for (int i = static_cast<int>(threadIdx.x) * kLineFloats; i < elements;
       i += kTileSamples * kLineFloats) {
    PrefetchToL2(scores + i);
  }
}

// Scores `i` and `i` + 1 of a row; -inf beyond its end.
template <int kWidth>
__device__ inline Pack<float, kTileGroup> LoadGroup(const float* row, int classes, int i) {
  if constexpr (kWidth == kTileGroup) return LoadPack<kWidth>(row + i, 0);
  return {{row[i], i + 1 < classes ? row[i + 1] : kMinusInfinity}};
}

template <int kWidth>
__device__ inline void StoreGroup(const Pack<float, kTileGroup>& values, float* row, int classes,
                                  int i) {
  if constexpr (kWidth == kTileGroup) {
    StorePack(values, row + i, 0);
  } else {
    row[i] = values.items[0];
    if (i + 1 < classes) row[i + 1] = values.items[1];
  }
}

// One sample by one thread: its scores, in `row`, become its gradient. Registers hold its scores,
// at most `kMaxClasses`.
template <int kMaxClasses, int kWidth>
__device__ void SoftmaxOfTileRow(int classes, double scale, int32_t sample_label, float* row,
                                 SampleTotals& own) {
  const RowLabel label = MakeRowLabel(sample_label, classes);
  const float label_score = label.is_class ? row[label.index] : 0.0f;
  Pack<float, kTileGroup> scores[kMaxClasses / kTileGroup];
  float maximum = kMinusInfinity;
#pragma unroll
  for (int i = 0; i < kMaxClasses; i += kTileGroup) {
    if (i >= classes) break;
    auto& group = scores[i / kTileGroup];
    group = LoadGroup<kWidth>(row, classes, i);
    maximum = fmaxf(maximum, fmaxf(group.items[0], group.items[1]));
  }
  double sum = 0;
  uint32_t maxima = 0;  // bit i: score i is one
#pragma unroll
  for (int i = 0; i < kMaxClasses; i += kTileGroup) {
    if (i >= classes) break;
    float group_sum = 0;
#pragma unroll
    for (int j = 0; j < kTileGroup; ++j) {
      float& score = scores[i / kTileGroup].items[j];
      if (score == maximum) maxima |= uint32_t{1} << (i + j);
      score = expf(score - maximum);
      group_sum += score;
    }
    sum += group_sum;
  }
  const double factor = scale / sum;
#pragma unroll
  for (int i = 0; i < kMaxClasses; i += kTileGroup) {
    if (i >= classes) break;
    auto& group = scores[i / kTileGroup];
#pragma unroll
    for (float& value : group.items) value *= static_cast<float>(factor);
    StoreGroup<kWidth>(group, row, classes, i);
  }
  if (label.is_class) {
    row[label.index] = LabelGradient(scale, factor, label_score, maximum);
    // The label's bit is set, and those of the classes before it are not.
    const bool is_first = maxima << (31 - label.index) == uint32_t{1} << 31;
    own.Add(sum, label_score, maximum, is_first);
  } else {
    own.AddNan();
  }
}

}  // namespace capstan

#endif  // KERNELS_CUDA_SOFTMAX_TILE_H_
