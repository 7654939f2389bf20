#include "tests/benchmark/step/bsp_step_load.h"

#include <memory>

#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"
#include "proto/coordinator_service.pb.h"
#include "tests/benchmark/step/allreduce_load.h"
#include "worker/client/parameter_store.h"

namespace capstan {

BenchmarkJob BspStepLoad::Job() const {
  BenchmarkJob job;
  job.table_bytes = bytes;
  job.slice_bytes = slice_bytes;
  job.num_workers = num_workers;
  job.num_servers = num_servers;
  job.learning_rate = 1;  // the values stay whole numbers
  job.consistency = ConsistencyMode::kBsp;
  return job;
}

absl::StatusOr<StepTimes> RunBspSteps(const BspStepLoad& load, int worker, ParameterClient* client,
                                      absl::FunctionRef<void()> barrier, Clock* clock) {
  Scheduler scheduler(load.credit_bytes, std::make_unique<FifoQueue>(),
                      load.has_metrics ? clock : nullptr);
  ParameterStore::Options options;
  options.clock = clock;
  options.client = client;
  options.scheduler = &scheduler;
  options.sender = load.Job().RequestOf(worker, /*slice=*/0).sender;
  v1::TableSpec table;
  table.add_shape(load.bytes / sizeof(float));
  options.tables = {table};
  options.slice_bytes = load.slice_bytes;
  ASSIGN_OR_RETURN(const std::unique_ptr<ParameterStore> store, ParameterStore::Create(options));
  store->PullAll(Step(0));
  RETURN_IF_ERROR(store->WaitForAll());
  const double mean_gradient = SumOfGradients(load.num_workers) / load.num_workers;
  StepTimes times;
  for (Step step; step < Step(load.warmup_steps + load.steps); step = step + 1) {
    FillGradient(worker, store->gradients()[0]);
    barrier();
    const absl::Time begin = clock->Now();
    store->PushPull(/*layer=*/0, step);
    RETURN_IF_ERROR(store->WaitForAll());
    const absl::Time end = clock->Now();
    if (step >= Step(load.warmup_steps)) times.push_back(absl::ToDoubleSeconds(end - begin));
    const auto applied = static_cast<double>(step.value() + 1);
    RETURN_IF_ERROR(CheckPattern(store->values()[0], -applied * mean_gradient));
  }
  return times;
}

}  // namespace capstan
