#include "kernels/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace capstan {
namespace {

bool IsClass(int32_t label, int64_t classes) { return label >= 0 && label < classes; }

// NaN fails each of these comparisons: a network that has diverged is never right.
bool IsFirstMaximum(const float* scores, int64_t classes, int32_t label) {
  if (!IsClass(label, classes) || !std::isfinite(scores[label])) return false;
  for (int64_t i = 0; i < label; ++i) {
    if (!(scores[i] < scores[label])) return false;
  }
  for (int64_t i = label; i < classes; ++i) {
    if (!(scores[i] <= scores[label])) return false;
  }
  return true;
}

// Returns the loss of one sample, and leaves its gradient times `scale` in `gradient`.
double SampleLoss(const float* scores, int64_t classes, int32_t label, double scale,
                  float* gradient) {
  const float maximum = *std::max_element(scores, scores + classes);
  const double label_score = IsClass(label, classes) ? double{scores[label]} - maximum
                                                     : std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (int64_t i = 0; i < classes; ++i) {
    // Relative to the maximum: no exponential overflows, and one of them is 1.
    gradient[i] = std::exp(scores[i] - maximum);
    sum += gradient[i];
  }
  const double factor = scale / sum;
  for (int64_t i = 0; i < classes; ++i) {
    gradient[i] = static_cast<float>(gradient[i] * factor - (i == label ? scale : 0.0));
  }
  return std::log(sum) - label_score;
}

}  // namespace

size_t SoftmaxCrossEntropyScratchBytes(int64_t /*samples*/, int64_t /*classes*/,
                                       const CpuStream& /*stream*/) {
  return 0;
}

absl::Status SoftmaxCrossEntropy(int64_t samples, int64_t classes, const float* scores,
                                 const int32_t* labels, float* gradient,
                                 SoftmaxCrossEntropyResult* result, void* /*scratch*/,
                                 CpuStream& /*stream*/) {
  *result = {};
  for (int64_t sample = 0; sample < samples; ++sample) {
    const float* sample_scores = scores + sample * classes;
    result->correct += IsFirstMaximum(sample_scores, classes, labels[sample]) ? 1 : 0;
    result->loss_sum +=
        SampleLoss(sample_scores, classes, labels[sample],
                   /*scale=*/1.0 / static_cast<double>(samples), gradient + sample * classes);
  }
  return absl::OkStatus();
}

}  // namespace capstan
