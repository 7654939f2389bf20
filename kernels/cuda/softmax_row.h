#ifndef KERNELS_CUDA_SOFTMAX_ROW_H_
#define KERNELS_CUDA_SOFTMAX_ROW_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "kernels/cuda/sum_and_count.h"

// What a thread does to the scores of its sample that it holds. For .cu.cc files only.
namespace capstan {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// A sample's label as the comparisons below want it: one that is no class equals no index.
struct RowLabel {
  int32_t index;
  bool is_class;
};

__device__ inline RowLabel MakeRowLabel(int32_t label, int64_t classes) {
  const bool is_class = label >= 0 && label < classes;
  return {is_class ? label : -1, is_class};
}

// Whether the score at `index` keeps the label from being the first maximum. Of comparisons that
// NaN fails, so that a network that has diverged is never right.
template <typename Index>
__device__ bool Contradicts(float score, float maximum, Index index, Index label) {
  if (index == label) return !(score == maximum);
  return index < label ? !(score < maximum) : !(score <= maximum);
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

// Adds a sample to the thread's own totals; called by the one thread that holds the label's score.
__device__ inline void AddSample(double sum, float label_score, float maximum, int contradictions,
                                 SumAndCount& own) {
  own.sum += log(sum) - (double{label_score} - maximum);
  own.count += contradictions == 0 ? 1 : 0;
}

}  // namespace capstan

#endif  // KERNELS_CUDA_SOFTMAX_ROW_H_
