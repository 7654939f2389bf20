#ifndef COMMON_JOB_VALIDATE_LOCAL_STEPS_H_
#define COMMON_JOB_VALIDATE_LOCAL_STEPS_H_

#include "common/job/job_checker.h"
#include "proto/job.pb.h"

namespace capstan {

// Checks a job with local steps (HasLocalSteps): that its model can have them, and that their
// settings and optimizers fit each other. Other jobs have no local steps with wrong numbers.
void CheckLocalStepsJob(const v1::JobSpec& job, JobChecker* checker);

}  // namespace capstan

#endif  // COMMON_JOB_VALIDATE_LOCAL_STEPS_H_
