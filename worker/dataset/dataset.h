#ifndef WORKER_DATASET_DATASET_H_
#define WORKER_DATASET_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace capstan {

// Labelled samples in memory. `features` is row-major [size(), feature_count]; labels are
// 0 ... class_count - 1.
struct Dataset {
  int feature_count = 0;
  int class_count = 0;
  std::vector<float> features;
  std::vector<int32_t> labels;

  size_t size() const { return labels.size(); }
  absl::Span<const float> Row(size_t sample) const {
    const size_t width = static_cast<size_t>(feature_count);
    return absl::MakeConstSpan(features).subspan(sample * width, width);
  }
};

// What a job trains on and what it is measured on.
struct DataSplit {
  Dataset train;
  Dataset test;
};

}  // namespace capstan

#endif  // WORKER_DATASET_DATASET_H_
