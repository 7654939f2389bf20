#ifndef WORKER_DATASET_LOAD_DATA_H_
#define WORKER_DATASET_LOAD_DATA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/dataset/dataset.h"

namespace capstan {

// INVALID_ARGUMENT, with the names of field and flag, when the format lacks a field or does not
// read a given file, or when a number is out of its range. Opens no file.
absl::Status CheckDataSpec(const v1::DataSpec& spec);

// Reads or makes the job's data, splits, checks and scales it. Both sides have the same
// feature_count and class_count, and neither is empty. The same files and `seed` give every worker
// the same data. An error is one line of text, with the reader's code or INVALID_ARGUMENT.
absl::StatusOr<DataSplit> LoadData(const v1::DataSpec& spec, uint64_t seed);

}  // namespace capstan

#endif  // WORKER_DATASET_LOAD_DATA_H_
