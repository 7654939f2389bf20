#include "tests/simulation/scripted_setup.h"

#include <memory>
#include <utility>

#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "tests/simulation/scripted_engine.h"

namespace capstan {
namespace {

// Each sample is a turn of one worker at one of `steps`, as the sampler deals them out.
Dataset Turns(BatchSampler sampler, uint32_t workers, int64_t steps) {
  Dataset turns;
  turns.feature_count = 2;
  turns.class_count = 1;
  turns.labels.resize(workers * static_cast<size_t>(steps));
  turns.features.resize(2 * turns.labels.size());
  for (int64_t step = 0; step < steps; ++step) {
    for (uint32_t worker = 0; worker < workers; ++worker) {
      const size_t sample = sampler.Indices(WorkerId(worker), Step(step)).at(0);
      turns.features[2 * sample] = static_cast<float>(worker);
      turns.features[2 * sample + 1] = static_cast<float>(step);
    }
  }
  return turns;
}

std::unique_ptr<Engine> MakeEngine(const Scenario& scenario, uint32_t process, Clock* clock) {
  ScriptedEngine::Options options;
  options.clock = clock;
  options.tables = scenario.tables;
  options.slice_bytes = SliceBytes(scenario.job.scheduler());
  options.steps = scenario.steps;
  options.has_test_values = scenario.has_test_values;
  options.compute_time = [&scenario, process, random = ComputeRandom(scenario, process)]() mutable {
    return scenario.compute_time(process, random);
  };
  return std::make_unique<ScriptedEngine>(std::move(options));
}

}  // namespace

JobPreparer ScriptedJobPreparer(const Scenario& scenario, uint32_t process) {
  return [&scenario, process](const v1::JobSpec& job, Clock* clock) -> absl::StatusOr<JobSetup> {
    const uint32_t workers = job.cluster().num_workers();
    // Without test values nobody looks at the turns: those of one step do for all.
    const int64_t steps = scenario.has_test_values ? scenario.steps : 1;
    BatchSampler::Options options;
    options.sample_count = workers * static_cast<uint64_t>(steps);
    options.num_workers = workers;
    options.batch_size = 1;
    options.seed = job.seed();
    ASSIGN_OR_RETURN(BatchSampler sampler, BatchSampler::Create(options));
    Dataset turns = Turns(sampler, workers, steps);
    return JobSetup{{turns, turns}, MakeEngine(scenario, process, clock), sampler, scenario.steps};
  };
}

}  // namespace capstan
