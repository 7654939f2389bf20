#ifndef SERVER_COORDINATOR_SUMMARY_H_
#define SERVER_COORDINATOR_SUMMARY_H_

#include <string>

#include "proto/job.pb.h"
#include "server/coordinator/job_outcome.h"

namespace capstan {

// A finished job's figures as one JSON object, indented. `consistency` and `staleness` are the
// job's own; `consistency_periods` has what counted from which step on, as changed while it ran.
// `staleness` is null for ASYNC, which has no bound; a figure that is not finite is null too.
// `warning` is there only when the training has failed (training_verdict.h).
// `tuning`, of a job whose schedule is tuned, has every measurement, and what was chosen and why.
std::string SummaryJson(const v1::JobSpec& job, const JobOutcome& outcome);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_SUMMARY_H_
