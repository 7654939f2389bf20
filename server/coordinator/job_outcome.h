#ifndef SERVER_COORDINATOR_JOB_OUTCOME_H_
#define SERVER_COORDINATOR_JOB_OUTCOME_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// What has become of a job that has ended.
struct JobOutcome {
  absl::Status status;             // OK, or ABORTED with the reason of its failure.
  v1::GetStatusReply last_status;  // The final view and everybody's last progress.
  v1::ReportResultRequest result;  // The evaluator's findings; only when the status is OK.
  absl::Duration training_time;    // From TRAINING to its end; 0 when it was never reached.
  int workers_lost = 0;            // that were declared dead
  // The last progress of those of them whose places others have taken.
  std::vector<v1::Progress> replaced_workers;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_JOB_OUTCOME_H_
