#ifndef WORKER_DATASET_SPARSE_BINARY_METRICS_H_
#define WORKER_DATASET_SPARSE_BINARY_METRICS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace capstan {

// Area under the ROC curve: the probability that a random sample with label 1 has a larger score
// than a random sample with label 0. Equal scores count half. Exact, in O(n log n). Labels are 0 or
// 1. INVALID_ARGUMENT for a NaN, unequal lengths, or labels of one kind only.
absl::StatusOr<double> Auc(absl::Span<const float> scores, absl::Span<const float> labels);

// Mean loss and accuracy of predicted clicks, sample by sample. Log odds are log(p / (1 - p)) for
// the predicted probability p. Not thread-safe.
class BinaryMetrics {
 public:
  // `label` is 0 or 1.
  void Add(float log_odds, float label);
  // The samples of `other`, too.
  void Add(const BinaryMetrics& other);

  uint64_t count() const { return count_; }
  // Mean of -log(probability of the label), in nats; 0 without samples.
  double log_loss() const { return count_ == 0 ? 0 : loss_sum_ / static_cast<double>(count_); }
  // Part of the samples with a probability above 1/2 for their label; 0 without samples. If the
  // probability is 1/2, label 0 counts as predicted.
  double accuracy() const {
    return count_ == 0 ? 0 : static_cast<double>(correct_) / static_cast<double>(count_);
  }

 private:
  uint64_t count_ = 0;
  uint64_t correct_ = 0;
  double loss_sum_ = 0;
};

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_BINARY_METRICS_H_
