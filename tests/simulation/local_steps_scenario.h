#ifndef TESTS_SIMULATION_LOCAL_STEPS_SCENARIO_H_
#define TESTS_SIMULATION_LOCAL_STEPS_SCENARIO_H_

#include <vector>

#include "common/base/random.h"
#include "tests/simulation/scenario.h"

namespace capstan {

// Gives the programs of a job local steps, in all its lives. Every table is a layer; some are
// added. If all steps are steps of BSP, the final values are known (KnownRoundsEnd).
void DrawLocalSteps(Random& random, bool is_always_bsp, const std::vector<Scenario*>& lives);

}  // namespace capstan

#endif  // TESTS_SIMULATION_LOCAL_STEPS_SCENARIO_H_
