#ifndef TESTS_SIMULATION_BAD_END_H_
#define TESTS_SIMULATION_BAD_END_H_

#include <string>

#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_cluster.h"

namespace capstan {

// Why the job may not have ended so; empty when it may. It may fail for nothing but a member's
// silence, and only when the scenario's faults can silence that member for its lease: a server, a
// worker before the training, or all workers. It may not end at all only when it waits for a member
// that died before it registered, and that none replaces.
std::string BadEnd(const Scenario& scenario, const SimulationResult& result);

}  // namespace capstan

#endif  // TESTS_SIMULATION_BAD_END_H_
