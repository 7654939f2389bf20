#ifndef TESTS_SIMULATION_RESIDUAL_CHECK_H_
#define TESTS_SIMULATION_RESIDUAL_CHECK_H_

#include <map>
#include <string>
#include <vector>

#include "tests/simulation/codec_watch.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_cluster.h"

namespace capstan {

// The tables of a job with a gradient_unit, and all workers' residuals of them added up.
struct ResidualTraining {
  std::vector<std::vector<float>> values;  // of each table
  std::vector<std::vector<double>> residuals;
  // If pulls get differences: what the workers have of each version.
  std::map<CodecWatch::VersionOfSlice, std::vector<float>> copies;
};

// The end of a BSP job without loss of a worker, by a plain loop over steps, slices and workers:
// what a push lacks is added to the next gradient, times the ratio of their learning rates, and the
// mean of each step, times its rate, is subtracted in float32. A difference moves the largest
// elements of what the workers lack, or all changed ones if they take at most four times as many
// bytes.
ResidualTraining TrainWithResiduals(const Scenario& scenario);

// What is wrong at the good end of a job with a gradient_unit that has lost no worker; empty:
// nothing. Under BSP its parameters must have the bits of TrainWithResiduals, also if it was
// restored. Otherwise it must not have been restored. Then its parameters must be what all
// gradients, times their learning rates, add up to, less the workers' final residuals. This is
// exact: all gradients are whole, all rates powers of two.
std::string WrongEnd(const Scenario& scenario, const SimulationResult& result);

// What is wrong with the differences that the workers of a BSP job with a gradient_unit have got,
// in a life of the job so far without loss of a worker; empty: nothing. They must have the bits of
// TrainWithResiduals, also after a restore.
std::string WrongCopies(const Scenario& scenario, const SimulationResult& result);

}  // namespace capstan

#endif  // TESTS_SIMULATION_RESIDUAL_CHECK_H_
