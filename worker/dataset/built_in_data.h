#ifndef WORKER_DATASET_BUILT_IN_DATA_H_
#define WORKER_DATASET_BUILT_IN_DATA_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/dataset/dataset.h"

namespace capstan {

// Handwritten digits, built into the program: 1,797 images of 8x8 pixels, 0 ... 16. README.md names
// their source and licence.
Dataset MakeDigits();

// Standard normal features, labelled by the largest output of a random network with one hidden
// layer of ReLU. The same (spec, seed) gives the same data. INVALID_ARGUMENT for a size out of
// range, RESOURCE_EXHAUSTED for more than kMaxDenseBytes.
absl::StatusOr<Dataset> MakeSynthetic(const v1::SyntheticSpec& spec, uint64_t seed);

}  // namespace capstan

#endif  // WORKER_DATASET_BUILT_IN_DATA_H_
