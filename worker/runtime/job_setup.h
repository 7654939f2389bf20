#ifndef WORKER_RUNTIME_JOB_SETUP_H_
#define WORKER_RUNTIME_JOB_SETUP_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "proto/job.pb.h"
#include "worker/dataset/batch_sampler.h"
#include "worker/dataset/dataset.h"
#include "worker/engine/engine.h"

namespace capstan {

// The parts of a job prepared by a worker before it registers.
struct JobSetup {
  DataSplit data;
  std::unique_ptr<Engine> engine;
  BatchSampler sampler;
  int64_t steps = 0;  // of each worker
};

// Loads the data and makes the engine. `clock` outlives the engine. The errors are those of
// LoadData, `make_engine` and BatchSampler.
absl::StatusOr<JobSetup> PrepareJob(const v1::JobSpec& job, const EngineFactory& make_engine,
                                    Clock* clock);

// PrepareJob or its replacement in a test: a scripted engine needs no data.
using JobPreparer = std::function<absl::StatusOr<JobSetup>(const v1::JobSpec& job, Clock* clock)>;

// PrepareJob with these engines.
JobPreparer JobPreparerOf(EngineFactory make_engine);

}  // namespace capstan

#endif  // WORKER_RUNTIME_JOB_SETUP_H_
