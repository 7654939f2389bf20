#ifndef TESTS_SIMULATION_COORDINATOR_LOSS_SCENARIO_H_
#define TESTS_SIMULATION_COORDINATOR_LOSS_SCENARIO_H_

#include <cstdint>

#include "tests/simulation/scenario.h"

namespace capstan {

// As DrawScenario, DrawCopiedScenario or DrawFailOverScenario, in a job whose coordinators keep its
// state: one to four of them are lost, at any time, often close to other events. Another one goes
// on each time, sometimes while the first one stands still.
Scenario DrawCoordinatorLossScenario(uint64_t seed);

}  // namespace capstan

#endif  // TESTS_SIMULATION_COORDINATOR_LOSS_SCENARIO_H_
