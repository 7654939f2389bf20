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

// A job for the prediction. At each step every worker computes. It exchanges a layer's slices at
// the end of the layer's backward pass.
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
  double slowness = 1;  // factor of the first worker's compute time
};

// The workload on a network without faults.
Scenario ScenarioOf(const Workload& workload, const SimulatedNetwork::Options& network);

struct Prediction {
  absl::Duration step_time;   // of the training: time for one step of each worker
  double mean_staleness = 0;  // of the values used for computing, in steps
  int64_t max_staleness = 0;
  uint64_t messages = 0;
};

// Predicts the workload's speed by simulation of all its processes.
Prediction Predict(const Workload& workload, const SimulatedNetwork::Options& network);

// Fits a network's model to three measurements: the time of one small exchange alone, `alone`; of
// one with `large_bytes` more, `large`; and the extra time of each further small exchange at the
// same time, `each`.
SimulatedNetwork::Options FitNetwork(absl::Duration alone, absl::Duration each,
                                     absl::Duration large, uint64_t large_bytes);

}  // namespace capstan

#endif  // TESTS_SIMULATION_PREDICTION_H_
