#ifndef WORKER_DATASET_SPLIT_DATASET_H_
#define WORKER_DATASET_SPLIT_DATASET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/dataset/dataset.h"

namespace capstan {

// INVALID_ARGUMENT unless 0 < `test_fraction` < 1.
absl::Status CheckTestFraction(double test_fraction);

// Holds out `test_fraction` of the samples, to the nearest number that leaves at least one on
// either side, drawn by the seed. INVALID_ARGUMENT for a wrong fraction or fewer than 2 samples.
absl::StatusOr<DataSplit> SplitDataset(const Dataset& data, double test_fraction, uint64_t seed);

}  // namespace capstan

#endif  // WORKER_DATASET_SPLIT_DATASET_H_
