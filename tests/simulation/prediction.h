#ifndef TESTS_SIMULATION_PREDICTION_H_
#define TESTS_SIMULATION_PREDICTION_H_

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "common/base/random.h"
#include "proto/job.pb.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_network.h"

namespace capstan {

// A job whose speed is asked for: every worker computes, and exchanges the slices of each layer as
// soon as it has gone through it backward, at each step.
struct Workload {
  v1::ConsistencySpec::Mode mode = v1::ConsistencySpec::BSP;
  int64_t staleness = 0;
  uint32_t workers = 1;
  uint32_t servers = 1;
  int64_t steps = 50;
  uint32_t layers = 1;
  uint32_t slices = 1;  // of each layer
  uint64_t slice_bytes = 4096;
  v1::SchedulerSpec::Policy policy = v1::SchedulerSpec::PRIORITY;  // of workers
  uint64_t credit_bytes = 4 << 20;                                 // of each worker
  std::function<absl::Duration(Random&)> compute_time;             // of one worker at one step
  double slowness = 1;  // how many times longer the first worker takes
};

// The workload on a network without faults.
Scenario ScenarioOf(const Workload& workload, const SimulatedNetwork::Options& network);

struct Prediction {
  absl::Duration step_time;   // of the training, by step of each worker
  double mean_staleness = 0;  // of the values that workers computed with, in steps
  int64_t max_staleness = 0;
  uint64_t messages = 0;
};

// How long the workload's steps take, by simulation of all its processes.
Prediction Predict(const Workload& workload, const SimulatedNetwork::Options& network);

// A model of a network in which an exchange of one slice alone takes `alone`; one of `large_bytes`
// more, `large`; and each further one of many small slices at a time takes `each` more.
SimulatedNetwork::Options FitNetwork(absl::Duration alone, absl::Duration each,
                                     absl::Duration large, uint64_t large_bytes);

}  // namespace capstan

#endif  // TESTS_SIMULATION_PREDICTION_H_
