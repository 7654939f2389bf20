#ifndef KERNELS_CUDA_SOFTMAX_ROW_H_
#define KERNELS_CUDA_SOFTMAX_ROW_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "kernels/cuda/block_sum.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/sum_and_count.h"

// Softmax of a row of scores, in the registers of one or more threads. For .cu.cc files only.
namespace capstan {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A sample's label. Its index is -1 if it is no class, and so before all classes.
struct RowLabel {
  int32_t index;
  bool is_class;
};

__device__ inline RowLabel MakeRowLabel(int32_t label, int64_t classes) {
  const bool is_class = label >= 0 && label < classes;
  return {is_class ? label : -1, is_class};
}

// Totals of a row, or of a thread's part of it.
struct RowTotal {
  double sum;   // of the exponentials
  int earlier;  // number of maximal scores before the label's
};

// The label's gradient, in float64 because its terms cancel. `factor` is that of all exponentials,
// and `scale` is 1 / samples.
__device__ inline float LabelGradient(double scale, double factor, float label_score,
                                      float maximum) {
  return static_cast<float>(double{expf(label_score - maximum)} * factor - scale);
}

// Totals of a thread's samples. A sum of logarithms is the logarithm of a product, and to multiply
// costs less than a logarithm.
class SampleTotals {
 public:
  // `row_sum` is the sum of the row's exponentials. `is_first` says that no other score is larger
  // than the label's, and none before it is as large.
  // Comparisons do not see a NaN among the scores. But it makes the sum NaN, as an infinite maximum
  // does: neither is ever correct.
  __device__ void Add(double row_sum, float label_score, float maximum, bool is_first) {
    product_ *= row_sum;
    // A row's sum is at least 1, and at most the number of classes: no overflow.
    if (product_ > 1e200) {
      sum_ += log(product_);
      product_ = 1;
    }
    sum_ -= double{label_score} - maximum;
    count_ += is_first && row_sum == row_sum ? 1 : 0;
  }

  // A sample whose label is no class.
  __device__ void AddNan() { sum_ = kNan; }

  // The loss, and the number of correct samples.
  __device__ SumAndCount Total() const { return {sum_ + log(product_), count_}; }

 private:
  double product_ = 1;
  double sum_ = 0;
  int64_t count_ = 0;
};

// Maximum and sum over the `kLanes` neighbouring threads of a row: a power of 2 up to a warp, or a
// whole block. All threads of the block call them together, in turn, GroupMaximum first. Each gets
// its group's result, with the same bits.

template <int kLanes>
__device__ float MaximumOfLanes(float own) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    own = fmaxf(own, __shfl_xor_sync(kWholeWarp, own, distance));
  }
  return own;
}

template <int kLanes>
__device__ RowTotal SumOfLanes(RowTotal own) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    own.sum += __shfl_xor_sync(kWholeWarp, own.sum, distance);
    own.earlier += __shfl_xor_sync(kWholeWarp, own.earlier, distance);
  }
  return own;
}

// One barrier in each of the two functions is enough. The shared array of one is overwritten only
// after the barrier of the other. By then all threads have read it.
template <int kLanes>
__device__ float GroupMaximum(float own) {
  if constexpr (kLanes <= kWarpThreads) {
    return MaximumOfLanes<kLanes>(own);
  } else {
    constexpr int kWarps = kLanes / kWarpThreads;
    __shared__ float warps[kWarps];
    own = MaximumOfLanes<kWarpThreads>(own);
    if (threadIdx.x % kWarpThreads == 0) warps[threadIdx.x / kWarpThreads] = own;
    __syncthreads();
    return MaximumOfLanes<kWarps>(warps[threadIdx.x % kWarps]);
  }
}

template <int kLanes>
__device__ RowTotal GroupSum(RowTotal own) {
  if constexpr (kLanes <= kWarpThreads) {
    return SumOfLanes<kLanes>(own);
  } else {
    constexpr int kWarps = kLanes / kWarpThreads;
    __shared__ RowTotal warps[kWarps];
    own = SumOfLanes<kWarpThreads>(own);
    if (threadIdx.x % kWarpThreads == 0) warps[threadIdx.x / kWarpThreads] = own;
    __syncthreads();
    return SumOfLanes<kWarps>(warps[threadIdx.x % kWarps]);
  }
}

// The part of a row in the registers of one of its `kLanes` threads: `kPacks` packs. Packs beyond
// the last class are not touched. Places in the row are counted from the thread's first class on.
// The places of its scores are therefore constants and need no registers.
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

  // The number of maximal scores before the label's.
  __device__ int EarlierMaxima(float maximum) const {
    int count = 0;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (Place(k, 0) >= label_) break;
#pragma unroll
      for (int item = 0; item < kWidth; ++item) {
        count += static_cast<int>(Place(k, item) < label_) &
                 static_cast<int>(packs_[k].items[item] == maximum);
      }
    }
    return count;
  }

  // Scores become exponentials. Returns their sum.
  __device__ double Exponentiate(float maximum) {
    double total = 0;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (Place(k, 0) >= classes_) break;
      float sum = 0;  // of a pack: rounds less than an exponential does, and spares conversions
#pragma unroll
      for (int item = 0; item < kWidth; ++item) {
        float& score = packs_[k].items[item];
        score = expf(score - maximum);
        sum += score;
      }
      total += sum;
    }
    return total;
  }

  // Stores the exponentials times `factor`.
  __device__ void StoreGradient(float factor, float* row) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (Place(k, 0) >= classes_) break;
#pragma unroll
      for (int item = 0; item < kWidth; ++item) packs_[k].items[item] *= factor;
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

#endif  // KERNELS_CUDA_SOFTMAX_ROW_H_
