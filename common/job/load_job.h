#ifndef COMMON_JOB_LOAD_JOB_H_
#define COMMON_JOB_LOAD_JOB_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace capstan {

// Reads a job in protobuf's text format; what the file leaves out keeps its default. Relative paths
// of data files and models count from the job file's folder. NOT_FOUND when the file cannot be
// read; INVALID_ARGUMENT "FILE:LINE:COLUMN: ..." when it cannot be understood, with the names that
// were possible there.
absl::StatusOr<v1::JobSpec> LoadJobFile(const std::string& path);

// Makes relative paths of the job's data files and models absolute: they count from `folder`, or,
// when that is relative or empty, from there within the current folder.
void ResolvePaths(const std::string& folder, v1::JobSpec* job);
// The same for models alone.
void ResolveModelPaths(const std::string& folder, v1::JobSpec* job);

// The job in protobuf's text format.
std::string JobText(const v1::JobSpec& job);

// Writes `job` so that LoadJobFile reads the same one.
absl::Status SaveJobFile(const v1::JobSpec& job, const std::string& path);

}  // namespace capstan

#endif  // COMMON_JOB_LOAD_JOB_H_
