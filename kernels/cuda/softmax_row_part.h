#ifndef KERNELS_CUDA_SOFTMAX_ROW_PART_H_
#define KERNELS_CUDA_SOFTMAX_ROW_PART_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/row_group.h"
#include "kernels/cuda/softmax_row.h"

// For .cu.cc files only.
namespace capstan {

// The part of a row that one of its `kLanes` threads holds in registers, as `kPacks` packs, of
// which those beyond the last class are not touched. Places in the row are counted from the
// thread's first class on, so that those of the scores are constants and need no registers.
template <int kWidth, int kLanes, int kPacks>
class RowPart {
 public:
  __device__ RowPart(int classes, const RowLabel& label)
      : classes_(classes - First()), label_(label.index - First()) {}

  __device__ void Load(const float* row) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (Place(k, 0) >= classes_) break;
      packs_[k] = LoadPack<kWidth>(row + First(), k * kLanes);
    }
  }

  __device__ float Maximum() const {
    float maximum = kMinusInfinity;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (Place(k, 0) >= classes_) break;
#pragma unroll
      for (int item = 0; item < kWidth; ++item) maximum = fmaxf(maximum, packs_[k].items[item]);
    }
    return maximum;
  }

  // Scores become exponentials. `label_score` is set where this part has it.
  __device__ RowTotal Exponentiate(float maximum, float& label_score) {
    RowTotal total = {0, 0};
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (Place(k, 0) >= classes_) break;
      float sum = 0;  // of a pack: rounds less than an exponential does, and spares conversions
#pragma unroll
      for (int item = 0; item < kWidth; ++item) {
        float& score = packs_[k].items[item];
        if (Place(k, item) == label_) label_score = score;
        total.earlier += IsEarlierMaximum(score, maximum, Place(k, item), label_);
        score = expf(score - maximum);
        sum += score;
      }
      total.sum += sum;
    }
    return total;
  }

  __device__ void StoreGradient(const RowFactor& factor, float* row) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (Place(k, 0) >= classes_) break;
#pragma unroll
      for (int item = 0; item < kWidth; ++item) {
        float& value = packs_[k].items[item];
        value = Place(k, item) == label_ ? factor.label : value * factor.others;
      }
      StorePack(packs_[k], row + First(), k * kLanes);
    }
  }

  __device__ bool HoldsLabel() const {
    return label_ >= 0 && label_ % (kLanes * kWidth) < kWidth && label_ < kPacks * kLanes * kWidth;
  }

 private:
  __device__ static int First() { return static_cast<int>(threadIdx.x) % kLanes * kWidth; }
  __device__ static constexpr int Place(int pack, int item) {
    return pack * kLanes * kWidth + item;
  }

  const int classes_;
  const int label_;
  Pack<float, kWidth> packs_[kPacks];
};

}  // namespace capstan

#endif  // KERNELS_CUDA_SOFTMAX_ROW_PART_H_
