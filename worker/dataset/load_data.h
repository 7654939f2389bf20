#ifndef WORKER_DATASET_LOAD_DATA_H_
#define WORKER_DATASET_LOAD_DATA_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/dataset/dataset.h"

namespace capstan {

// The job's data, read or made, split, checked and scaled: both sides have the same feature_count
// and class_count, and no side is empty. Every worker gets the same from the same files and `seed`.
// Every error is one line; its code is that of the reader, or INVALID_ARGUMENT.
absl::StatusOr<DataSplit> LoadData(const v1::DataSpec& spec, uint64_t seed);

}  // namespace capstan

#endif  // WORKER_DATASET_LOAD_DATA_H_
