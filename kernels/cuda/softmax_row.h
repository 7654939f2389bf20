#ifndef KERNELS_CUDA_SOFTMAX_ROW_H_
#define KERNELS_CUDA_SOFTMAX_ROW_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "kernels/cuda/sum_and_count.h"

// What a thread does to the scores of its sample that it holds. For .cu.cc files only.
namespace capstan {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A sample's label as the comparisons below want it: one that is no class comes before them all.
struct RowLabel {
  int32_t index;
  bool is_class;
};

__device__ inline RowLabel MakeRowLabel(int32_t label, int64_t classes) {
  const bool is_class = label >= 0 && label < classes;
  return {is_class ? label : -1, is_class};
}

// Of a row, or of the part of it that a thread has.
struct RowTotal {
  double sum;   // of the exponentials
  int earlier;  // scores before the label's that are the maximum
};

// 1 where the score at `index` takes the answer from the label, else 0; without a branch.
template <typename Index>
__device__ int IsEarlierMaximum(float score, float maximum, Index index, Index label) {
  return static_cast<int>(index < label) & static_cast<int>(score == maximum);
}

// What turns a row's exponentials into the gradient of the mean loss.
struct RowFactor {
  float others;  // by which those of all classes but the label's are multiplied
  float label;   // the label's gradient, computed in float64 because its terms cancel
};

// `scale` is 1 / samples, `sum` that of the exponentials; `label_score` counts for the thread that
// has it.
__device__ inline RowFactor MakeRowFactor(double scale, double sum, float label_score,
                                          float maximum) {
  const double factor = scale / sum;
  const double exponential = expf(label_score - maximum);
  return {static_cast<float>(factor), static_cast<float>(exponential * factor - scale)};
}

// Adds a sample to the thread's own totals; called by the one thread that has the label's score.
// A NaN among the scores is not seen by comparisons, but makes the sum NaN, as an infinite maximum
// does: neither is ever correct.
__device__ inline void AddSample(const RowTotal& row, float label_score, float maximum,
                                 SumAndCount& own) {
  own.sum += log(row.sum) - (double{label_score} - maximum);
  own.count += row.earlier == 0 && label_score == maximum && row.sum == row.sum ? 1 : 0;
}

}  // namespace capstan

#endif  // KERNELS_CUDA_SOFTMAX_ROW_H_
