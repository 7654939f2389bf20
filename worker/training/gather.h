#ifndef WORKER_TRAINING_GATHER_H_
#define WORKER_TRAINING_GATHER_H_

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "worker/dataset/dataset.h"

namespace capstan {

// Copies the samples of `dataset` with these indices together: `features` becomes row-major
// [samples.size(), dataset.feature_count], `labels` [samples.size()].
inline void GatherSamples(const Dataset& dataset, absl::Span<const uint32_t> samples,
                          float* features, int32_t* labels) {
  for (const uint32_t sample : samples) {
    const absl::Span<const float> row = dataset.Row(sample);
    features = std::copy(row.begin(), row.end(), features);
    *labels++ = dataset.labels[sample];
  }
}

}  // namespace capstan

#endif  // WORKER_TRAINING_GATHER_H_
