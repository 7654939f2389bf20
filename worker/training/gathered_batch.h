#ifndef WORKER_TRAINING_GATHERED_BATCH_H_
#define WORKER_TRAINING_GATHERED_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/dataset/dataset.h"
#include "worker/training/model.h"

namespace capstan {

// A batch whose samples have been copied together. Keeps its memory from batch to batch.
class GatheredBatch {
 public:
  // The samples of `dataset` with these indices. The batch is valid until the next call.
  Batch Gather(const Dataset& dataset, absl::Span<const uint32_t> indices) {
    features_.clear();
    labels_.clear();
    for (const uint32_t index : indices) {
      const absl::Span<const float> row = dataset.Row(index);
      features_.insert(features_.end(), row.begin(), row.end());
      labels_.push_back(dataset.labels[index]);
    }
    return {features_, labels_};
  }

 private:
  std::vector<float> features_;
  std::vector<int32_t> labels_;
};

}  // namespace capstan

#endif  // WORKER_TRAINING_GATHERED_BATCH_H_
