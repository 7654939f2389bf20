#ifndef WORKER_MODELS_SPARSE_TRAINING_PREPARE_STREAM_JOB_H_
#define WORKER_MODELS_SPARSE_TRAINING_PREPARE_STREAM_JOB_H_

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "proto/job.pb.h"
#include "worker/engine/device_name.h"
#include "worker/runtime/job_setup.h"

namespace capstan {

// Prepares a job whose model learns from a stream (LearnsFromStream). Once the worker is
// registered, a thread of the setup's own computes the steps; it ends with the setup. `clock`
// outlives the setup. INVALID_ARGUMENT for a GPU, or the errors of StreamData::Open.
absl::StatusOr<JobSetup> PrepareStreamJob(const v1::JobSpec& job, const DeviceName& device,
                                          Clock* clock);

}  // namespace capstan

#endif  // WORKER_MODELS_SPARSE_TRAINING_PREPARE_STREAM_JOB_H_
