#ifndef SERVER_COORDINATOR_JOB_OUTCOME_H_
#define SERVER_COORDINATOR_JOB_OUTCOME_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// The outcome of a job that has ended.
struct JobOutcome {
  // OK, ABORTED with the reason of its failure, or CANCELLED if the coordinator was interrupted.
  absl::Status status;
  v1::GetStatusReply last_status;         // The final view and everybody's last progress.
  v1::ReportResultRequest result;         // The evaluator's findings; only if the status is OK.
  absl::Duration training_time;           // From TRAINING to its end; 0 if it was never reached.
  int workers_lost = 0;                   // Declared dead, also those replaced.
  bool has_other_bits = false;            // As in v1::CheckpointManifest.
  std::vector<std::string> device_notes;  // DeviceKinds::notes
};

// The figures of a job that has ended as one JSON object, indented. `outcome` is "finished",
// "failed" or "interrupted"; the latter two have a `reason`, and no result of the test. `devices`
// is in the order of the workers' ids. `transport` is what exchanges used; it is not there if none
// was sent. `consistency` and `staleness` are the job's own; `consistency_periods` lists all
// changes of them with their first steps. `staleness` is null for ASYNC: it has no bound. A figure
// that is not finite is null too. `warning` is there only if the training has failed or the data
// seem wrong (training_verdict.h), a checkpoint could not be written, devices differ, or a lost
// worker has changed the bits. What a program has not told has no key: its accuracy, its losses.
// `model` is there only for programs. Only with local steps there are `local_steps` of all workers,
// `sync_every` or `round_seconds`, and `drift`, the mean over live workers. The keys of codecs are
// there only in jobs with a codec other than float32; those of lost servers, with a text, in jobs
// with two replicas. A ratio is the size as float32 divided by the size that was sent. A tuned
// job's `tuning` has every measurement, the choice and its reason.
std::string SummaryJson(const v1::JobSpec& job, const JobOutcome& outcome);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_JOB_OUTCOME_H_
