#ifndef WORKER_RUNTIME_JOB_SETUP_H_
#define WORKER_RUNTIME_JOB_SETUP_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/dataset/batch_sampler.h"
#include "worker/dataset/dataset.h"
#include "worker/training/model.h"

namespace capstan {

// What a worker prepares of a job before it registers.
struct JobSetup {
  DataSplit data;
  std::unique_ptr<Model> model;
  BatchSampler sampler;
  int64_t steps = 0;  // of each worker
};

// Loads the data and builds the model. The errors are those of LoadData, MakeModel and
// BatchSampler.
absl::StatusOr<JobSetup> PrepareJob(const v1::JobSpec& job);

}  // namespace capstan

#endif  // WORKER_RUNTIME_JOB_SETUP_H_
