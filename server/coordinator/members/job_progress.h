#ifndef SERVER_COORDINATOR_MEMBERS_JOB_PROGRESS_H_
#define SERVER_COORDINATOR_MEMBERS_JOB_PROGRESS_H_

#include <cstdint>

#include "proto/coordinator_service.pb.h"

namespace capstan {

// The progress of workers, also in a job that goes on from a checkpoint.

// The progress that the worker had at `step`, from a later or earlier report: counts and times are
// in proportion to the steps.
v1::Progress ProgressAt(const v1::Progress& report, int64_t step);

// The progress of the whole job, of the part before the checkpoint and of the part since.
v1::Progress JoinedProgress(const v1::Progress& before, const v1::Progress& since);

// True when some worker still has a step to do under BSP.
bool HasBspStepsLeft(const v1::GetStatusReply& status);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_JOB_PROGRESS_H_
