#ifndef DEPLOY_CLI_RUN_FOLDER_H_
#define DEPLOY_CLI_RUN_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace capstan {

// The job as it runs: its file with the flags applied.
inline constexpr char kEffectiveJobFile[] = "effective_job.textproto";

// An unused runs/NAME-YYYYMMDD-HHMMSS, with -2, -3, ... behind it where that exists.
std::string DefaultRunFolder(const std::string& job_name, absl::Time now);

// Makes the folder, and removes what an earlier run has written into it; what has another name than
// those files stays. INVALID_ARGUMENT when `job_file`, the job that was given, is one of them.
absl::Status PrepareRunFolder(const std::string& path, const std::string& job_file);

// The same for a folder of histories.
absl::Status PrepareHistoryFolder(const std::string& path);

}  // namespace capstan

#endif  // DEPLOY_CLI_RUN_FOLDER_H_
