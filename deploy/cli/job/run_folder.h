#ifndef DEPLOY_CLI_JOB_RUN_FOLDER_H_
#define DEPLOY_CLI_JOB_RUN_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace capstan {

// Files in the folder of a run.
inline constexpr char kEffectiveJobFile[] = "effective_job.textproto";  // the job, flags applied
inline constexpr char kPortFile[] = "coordinator.port";                 // its host:port
inline constexpr char kSummaryFile[] = "summary.json";                  // by the coordinator
inline constexpr char kProgressFile[] = "progress.jsonl";               // by ProgressLog
inline constexpr char kReportFile[] = "report.html";                    // by capstan report
inline constexpr char kMergedTraceFile[] = "trace.json";                // by capstan trace
// A process's log and trace: "worker-0.log", "worker-0.trace.json".
inline constexpr char kLogEnding[] = ".log";
inline constexpr char kTraceEnding[] = ".trace.json";

// An unused runs/NAME-YYYYMMDD-HHMMSS, with -2, -3, ... behind it where that exists.
std::string DefaultRunFolder(const std::string& job_name, absl::Time now);

// Makes the folder, and removes what an earlier run has written into it; what has another name than
// those files stays. INVALID_ARGUMENT when `job_file`, the job that was given, is one of them.
absl::Status PrepareRunFolder(const std::string& path, const std::string& job_file);

// The same for a folder of histories.
absl::Status PrepareHistoryFolder(const std::string& path);

}  // namespace capstan

#endif  // DEPLOY_CLI_JOB_RUN_FOLDER_H_
