#ifndef SERVER_COORDINATOR_JOB_FILES_H_
#define SERVER_COORDINATOR_JOB_FILES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/coordinator/coordinator.h"

namespace capstan {

// Opens the files of options.job for its coordinator: the file of --output, the folder of
// checkpoints, and the checkpoint of --restore. `token` is a random number. The error names the
// flag. FAILED_PRECONDITION: the folder has checkpoints, but the job does not go on from one.
absl::Status OpenJobFiles(uint64_t token, Coordinator::Options& options);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_JOB_FILES_H_
