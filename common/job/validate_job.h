#ifndef COMMON_JOB_VALIDATE_JOB_H_
#define COMMON_JOB_VALIDATE_JOB_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace capstan {

// INVALID_ARGUMENT for the first field out of its range or in contradiction to another one:
// "--flag: expected ..., got ... (field in a job file)". Reads no file.
absl::Status ValidateJob(const v1::JobSpec& job);

// The same for its consistency alone.
absl::Status ValidateConsistency(const v1::ConsistencySpec& consistency);

}  // namespace capstan

#endif  // COMMON_JOB_VALIDATE_JOB_H_
