#ifndef DEPLOY_LAUNCH_RUN_FOLDER_H_
#define DEPLOY_LAUNCH_RUN_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/model_file/model_file.h"

namespace capstan {

// Files in the folder of a run.
inline constexpr char kEffectiveJobFile[] = "effective_job.textproto";  // the job, flags applied
inline constexpr char kPortFile[] = "coordinator.port";                 // its host:port
inline constexpr char kStateFolder[] = "coordinator.state";             // its --state
inline constexpr char kSummaryFile[] = "summary.json";                  // by the coordinator
inline constexpr char kProgressFile[] = "progress.jsonl";               // by ProgressLog
inline constexpr char kReportFile[] = "report.html";                    // by capstan report
inline constexpr char kMergedTraceFile[] = "trace.json";                // by capstan trace
// Locked by the run. A folder of checkpoints has a lock of another name: one folder may be both.
inline constexpr char kRunLockFile[] = "run.lock";
// A process's log and trace: "worker-0.log", "worker-0.trace.json".
inline constexpr char kLogEnding[] = ".log";
inline constexpr char kTraceEnding[] = ".trace.json";

// Whether a file of this name is one of those above.
bool IsWrittenByARun(absl::string_view name);

// A new runs/NAME-YYYYMMDD-HHMMSS. If it exists, -2, -3, ... is appended.
std::string DefaultRunFolder(const std::string& job_name, absl::Time now);

// Makes the folder, and removes what an earlier run has left, by its names. Other files stay. As
// long as the result exists, the folder is locked for this run. INVALID_ARGUMENT when `job_file`,
// the file of the new job, is one of the files to remove. FAILED_PRECONDITION when another run has
// locked it.
absl::StatusOr<OpenFile> PrepareRunFolder(const std::string& path, const std::string& job_file);

// The same for a folder of histories.
absl::Status PrepareHistoryFolder(const std::string& path);

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_RUN_FOLDER_H_
