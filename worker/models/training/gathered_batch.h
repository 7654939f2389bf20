#ifndef WORKER_MODELS_TRAINING_GATHERED_BATCH_H_
#define WORKER_MODELS_TRAINING_GATHERED_BATCH_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/dataset/dataset.h"
#include "worker/models/training/model.h"

namespace capstan {

// Copies the samples of `dataset` with these indices. `features` becomes row-major
// [samples.size(), dataset.feature_count], `labels` [samples.size()].
inline void GatherSamples(const Dataset& dataset, absl::Span<const uint32_t> samples,
                          float* features, int32_t* labels) {
  for (const uint32_t sample : samples) {
    const absl::Span<const float> row = dataset.Row(sample);
    features = std::copy(row.begin(), row.end(), features);
    *labels++ = dataset.labels[sample];
  }
}

// Copies of a batch's samples, side by side. Reuses its memory from batch to batch.
class GatheredBatch {
 public:
  // The samples of `dataset` with these indices.
  void Gather(const Dataset& dataset, absl::Span<const uint32_t> samples) {
    features_.resize(samples.size() * static_cast<size_t>(dataset.feature_count));
    labels_.resize(samples.size());
    GatherSamples(dataset, samples, features_.data(), labels_.data());
  }

  // The last batch; valid until the next Gather.
  Batch batch() const { return {features_, labels_}; }

 private:
  std::vector<float> features_;
  std::vector<int32_t> labels_;
};

}  // namespace capstan

#endif  // WORKER_MODELS_TRAINING_GATHERED_BATCH_H_
