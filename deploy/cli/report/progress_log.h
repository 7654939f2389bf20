#ifndef DEPLOY_CLI_REPORT_PROGRESS_LOG_H_
#define DEPLOY_CLI_REPORT_PROGRESS_LOG_H_

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Keeps the course of a job in a file: one JSON object a line, each a status of the job,
//   {"seconds": since the start of the job, "phase": "TRAINING", "workers": [...]}
// with an object for each registered worker, in order of id, whose fields are
//   "worker": id, "is_live", and those of v1.Progress under their names and in their units.
// A status is written when progress has been made since the last one, and not more often than every
// 20 ms at first and every 1/500 of the job's time later, so that the file of a long job stays
// small. Not thread-safe.
class ProgressLog {
 public:
  // Makes the file, in place of an older one.
  explicit ProgressLog(const std::string& path) : path_(path), file_(path, std::ios::trunc) {}

  // `elapsed`: since the start of the job.
  void Append(absl::Duration elapsed, const v1::GetStatusReply& status);

  // UNAVAILABLE when the file could not be written.
  absl::Status Close();

 private:
  const std::string path_;
  std::ofstream file_;
  std::string written_;  // what was written last, without its time
  absl::Duration next_ = absl::ZeroDuration();
  v1::Phase phase_ = v1::PHASE_UNSPECIFIED;
};

}  // namespace capstan

#endif  // DEPLOY_CLI_REPORT_PROGRESS_LOG_H_
