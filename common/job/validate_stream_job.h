#ifndef COMMON_JOB_VALIDATE_STREAM_JOB_H_
#define COMMON_JOB_VALIDATE_STREAM_JOB_H_

#include "common/job/job_checker.h"
#include "proto/job.pb.h"

namespace capstan {

// Checks a job whose samples are a stream (LearnsFromStream): that model, data, optimizer and
// length fit each other.
void CheckStreamJob(const v1::JobSpec& job, JobChecker* checker);

// Checks that a job with another model has none of the data that only streams have.
void CheckHasNoStream(const v1::JobSpec& job, JobChecker* checker);

}  // namespace capstan

#endif  // COMMON_JOB_VALIDATE_STREAM_JOB_H_
