#ifndef WORKER_DATASET_CHECK_DATA_SPEC_H_
#define WORKER_DATASET_CHECK_DATA_SPEC_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace capstan {

// INVALID_ARGUMENT, naming field and flag, when a field is missing that the format needs, a file is
// given that the format does not read, or a number is out of its range. Opens no file.
absl::Status CheckDataSpec(const v1::DataSpec& spec);

}  // namespace capstan

#endif  // WORKER_DATASET_CHECK_DATA_SPEC_H_
