#ifndef WORKER_DATASET_SYNTHETIC_H_
#define WORKER_DATASET_SYNTHETIC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/dataset/dataset.h"

namespace capstan {

// Standard normal features, labelled by the largest output of a random network with one hidden
// layer of ReLU. The same data for the same (spec, seed). INVALID_ARGUMENT for a size that is out
// of range, RESOURCE_EXHAUSTED for one beyond kMaxDenseBytes.
absl::StatusOr<Dataset> MakeSynthetic(const v1::SyntheticSpec& spec, uint64_t seed);

}  // namespace capstan

#endif  // WORKER_DATASET_SYNTHETIC_H_
