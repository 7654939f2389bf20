#ifndef KERNELS_SOFTMAX_CROSS_ENTROPY_H_
#define KERNELS_SOFTMAX_CROSS_ENTROPY_H_

#include <cstdint>

namespace capstan {

struct SoftmaxCrossEntropyResult {
  double loss_sum = 0;  // over the samples: -log(softmax(scores)[label])
  int64_t correct = 0;  // samples whose label has the highest score, the first among equals
};

// Loss of `scores`, row-major [samples, classes], against one label in [0, classes) a sample, and
// the gradient of the mean loss: (softmax(scores) - one_hot(labels)) / samples. `gradient` has the
// shape of `scores` and may be the same array. Finite scores of any size give a finite gradient.
void SoftmaxCrossEntropy(int64_t samples, int64_t classes, const float* scores,
                         const int32_t* labels, float* gradient, SoftmaxCrossEntropyResult* result);

}  // namespace capstan

#endif  // KERNELS_SOFTMAX_CROSS_ENTROPY_H_
