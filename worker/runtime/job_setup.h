#ifndef WORKER_RUNTIME_JOB_SETUP_H_
#define WORKER_RUNTIME_JOB_SETUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "worker/client/parameter_store.h"
#include "worker/dataset/batch_sampler.h"
#include "worker/dataset/dataset.h"
#include "worker/engine/engine.h"

namespace capstan {

// Evaluates the parameters after `steps` steps, and sets the result's figures. The store holds them
// afterwards, exactly.
using Evaluator = absl::AnyInvocable<absl::Status(Step steps, ParameterStore& store,
                                                  v1::ReportResultRequest& result)>;

// The parts of a job prepared by a worker before it registers.
struct JobSetup {
  DataSplit data;
  std::shared_ptr<Engine> engine;
  std::optional<BatchSampler> sampler;  // none: the engine brings its own data
  int64_t steps = 0;                    // of each worker; 0: the engine tells when they end
  Evaluator evaluate;                   // null: EvaluateOnTestData
  // Hears of the worker's id, before the training. Null: nobody has to know.
  std::function<void(WorkerId)> on_registered;
};

// Computes accuracy and loss on the test samples of the setup.
absl::Status EvaluateOnTestData(JobSetup& setup, Step steps, ParameterStore& store,
                                v1::ReportResultRequest& result);

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
