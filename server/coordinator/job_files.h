#ifndef SERVER_COORDINATOR_JOB_FILES_H_
#define SERVER_COORDINATOR_JOB_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "server/coordinator/coordinator.h"

namespace capstan {

// Opens the files of options.job for its coordinator: the file of --output, the folder of
// checkpoints, and the checkpoint of --restore. Or as options.saved says, if another coordinator
// has begun; `takes_over`: its process may still be there. The token is options.folder_token. The
// error names the flag. FAILED_PRECONDITION: the folder has checkpoints, but the job does not go on
// from one.
absl::Status OpenJobFiles(bool takes_over, Coordinator::Options& options);

// Opens the folder of --state, and takes from there what another coordinator has left of
// options.job. The error names the flag.
absl::Status OpenState(const std::string& dir, bool takes_over, Coordinator::Options& options);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_JOB_FILES_H_
