#ifndef TESTS_SIMULATION_RUN_SCENARIO_H_
#define TESTS_SIMULATION_RUN_SCENARIO_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/simulation/scenario.h"

namespace capstan {

struct ScenarioVerdict {
  std::string bytes;      // of the history, as in a file
  std::string violation;  // empty when the contract was kept, and the job ended as it may
  size_t exchanges = 0;
  bool is_done = false;  // the job ended well
  int incarnations = 0;  // of workers
  int changes = 0;       // of the consistency, that began before the last step
};

// Simulates the scenario, checks its history, and that the job has ended as it may (BadEnd).
ScenarioVerdict RunScenario(const Scenario& scenario);

}  // namespace capstan

#endif  // TESTS_SIMULATION_RUN_SCENARIO_H_
