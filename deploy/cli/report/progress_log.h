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

// Writes the statuses of a job into a file, one JSON object a line:
//   {"seconds": since the start of the job, "phase": "TRAINING", "workers": [...],
//    "replaced_workers": [...]}
// Each registered worker has an object, in order of id. Its fields are "worker" (the id),
// "is_live", and those of v1.Progress with their names and units: the ones about codecs only in a
// job with a codec. The last progress of each worker that was replaced has the same fields of
// v1.Progress; without one there is no such list. A status without progress is not written. The
// interval is 20 ms, or 1/500 of the job's time so far if that is longer. Not thread-safe.
class ProgressLog {
 public:
  // Creates the file. An older one is replaced.
  explicit ProgressLog(const std::string& path) : path_(path), file_(path, std::ios::trunc) {}

  // `elapsed`: since the start of the job.
  void Append(absl::Duration elapsed, const v1::GetStatusReply& status);

  // UNAVAILABLE when the file could not be written.
  absl::Status Close();

 private:
  const std::string path_;
  std::ofstream file_;
  std::string written_;  // the last line, without its time
  absl::Duration next_ = absl::ZeroDuration();
  v1::Phase phase_ = v1::PHASE_UNSPECIFIED;
};

// One worker in one status of a job, with the names and units of v1.Progress.
struct WorkerSample {
  int64_t worker = 0;
  double steps_done = 0;
  double loss = 0;
  double bytes_pushed = 0;
  double bytes_pulled = 0;
  double float_bytes_pushed = 0;  // 0 in a job without codecs
  double float_bytes_pulled = 0;
  double gradient_squares = 0;
  double residual_squares = 0;
  double seconds_coding = 0;
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
  std::vector<WorkerSample> replaced_workers = {};  // their ids are not known
};

// Reads the text of a ProgressLog. INVALID_ARGUMENT, naming the line, when a line is no status. A
// last line without its newline is left out: a kill cuts it off.
absl::StatusOr<std::vector<RunSample>> ParseRunCourse(absl::string_view text);

}  // namespace capstan

#endif  // DEPLOY_CLI_REPORT_PROGRESS_LOG_H_
