#ifndef TESTS_SIMULATION_SCRIPTED_SETUP_H_
#define TESTS_SIMULATION_SCRIPTED_SETUP_H_

#include <cstdint>

#include "tests/simulation/scenario.h"
#include "worker/runtime/job_setup.h"

namespace capstan {

// What the worker process `process` of the scenario prepares, in place of a data set and a model: a
// ScriptedEngine, and the samples that tell it whose turn it is. The scenario outlives both.
JobPreparer ScriptedJobPreparer(const Scenario& scenario, uint32_t process);

}  // namespace capstan

#endif  // TESTS_SIMULATION_SCRIPTED_SETUP_H_
