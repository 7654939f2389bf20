#ifndef DEPLOY_CLI_REPORT_RUN_COURSE_H_
#define DEPLOY_CLI_REPORT_RUN_COURSE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

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

#endif  // DEPLOY_CLI_REPORT_RUN_COURSE_H_
