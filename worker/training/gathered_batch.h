#ifndef WORKER_TRAINING_GATHERED_BATCH_H_
#define WORKER_TRAINING_GATHERED_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/dataset/dataset.h"
#include "worker/training/gather.h"
#include "worker/training/model.h"

namespace capstan {

// A batch whose samples have been copied together. Keeps its memory from batch to batch.
class GatheredBatch {
 public:
  // The samples of `dataset` with these indices.
  void Gather(const Dataset& dataset, absl::Span<const uint32_t> samples) {
    features_.resize(samples.size() * static_cast<size_t>(dataset.feature_count));
    labels_.resize(samples.size());
    GatherSamples(dataset, samples, features_.data(), labels_.data());
  }

  // What was gathered last; valid until the next Gather.
  Batch batch() const { return {features_, labels_}; }

 private:
  std::vector<float> features_;
  std::vector<int32_t> labels_;
};

}  // namespace capstan

#endif  // WORKER_TRAINING_GATHERED_BATCH_H_
