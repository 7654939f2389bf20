#ifndef DEPLOY_CLI_REPORT_PROGRESS_LOG_H_
#define DEPLOY_CLI_REPORT_PROGRESS_LOG_H_

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

// One worker in one status of a job; what v1.Progress says, under its names.
struct WorkerSample {
  int64_t worker = 0;
  double steps_done = 0;
  double loss = 0;
  double bytes_pushed = 0;
  double bytes_pulled = 0;
  double seconds = 0;
  double seconds_waiting = 0;
  double seconds_sending = 0;
  double mean_staleness_seen = 0;
  std::vector<double> replies_of_staleness;
};

// One status of a job.
struct RunSample {
  double seconds = 0;  // since its start
  std::vector<WorkerSample> workers;
};

// Reads what ProgressLog has written. INVALID_ARGUMENT, naming the line, when it is something else;
// the last line may be broken off, as that of a run that was killed is.
absl::StatusOr<std::vector<RunSample>> ParseRunCourse(absl::string_view text);

}  // namespace capstan

#endif  // DEPLOY_CLI_REPORT_PROGRESS_LOG_H_
