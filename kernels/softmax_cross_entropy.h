#ifndef KERNELS_SOFTMAX_CROSS_ENTROPY_H_
#define KERNELS_SOFTMAX_CROSS_ENTROPY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace capstan {

class CpuStream;
class CudaStream;

struct SoftmaxCrossEntropyResult {
  double loss_sum = 0;  // over the samples: -log(softmax(scores)[label])
  int64_t correct = 0;  // the label has the highest score, and is the first among equals
};

size_t SoftmaxCrossEntropyScratchBytes(int64_t samples, int64_t classes, const CpuStream& stream);
size_t SoftmaxCrossEntropyScratchBytes(int64_t samples, int64_t classes, const CudaStream& stream);

// Loss of `scores`, row-major [samples, classes], against one label in [0, classes) for each
// sample, and the gradient of the mean loss: (softmax(scores) - one_hot(labels)) / samples.
// `gradient` has the shape of `scores` and may be the same array. There is a class if there is a
// sample.
// Finite scores of any size give a finite gradient. A sample with a NaN or with an infinite highest
// score is never correct. The caller checks the labels' range: a label out of range makes the loss
// NaN, is never correct, and touches nothing outside of the arrays.
// On a GPU the last bits depend on the alignment of scores and gradient to 16 bytes.
absl::Status SoftmaxCrossEntropy(int64_t samples, int64_t classes, const float* scores,
                                 const int32_t* labels, float* gradient,
                                 SoftmaxCrossEntropyResult* result, void* scratch,
                                 CpuStream& stream);
absl::Status SoftmaxCrossEntropy(int64_t samples, int64_t classes, const float* scores,
                                 const int32_t* labels, float* gradient,
                                 SoftmaxCrossEntropyResult* result, void* scratch,
                                 CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_SOFTMAX_CROSS_ENTROPY_H_
