#ifndef TESTS_SIMULATION_RUN_SCENARIO_H_
#define TESTS_SIMULATION_RUN_SCENARIO_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_cluster.h"

namespace capstan {

struct ScenarioVerdict {
  std::string bytes;      // of the history, as in a file
  std::string violation;  // empty: the contract holds, and BadEnd allows the end
  size_t exchanges = 0;
  bool is_done = false;            // the job ended well
  v1::GetStatusReply last_status;  // of the last life; empty if it has not ended
  int incarnations = 0;            // of workers
  int changes = 0;                 // of the consistency, before the last step
  int restores = 0;                // from a checkpoint
  int own_states = 0;              // of slices, with which workers began after a restore
  int64_t rounds = 0;              // that workers have come for, in jobs that stay
  int known_ends = 0;              // ends whose parameters ResidualCheck has compared
  int known_values = 0;            // ends of a Scenario with has_known_end that were compared
  int known_rounds = 0;            // the same of jobs with local steps
  int64_t checked_pushes = 0;      // with local steps
  int64_t compared_copies = 0;     // of shards, with their shards
  int64_t copies_made_again = 0;   // after a loss
  int64_t checked_replies = 0;     // that had to wait for a copy
  int64_t servers_lost = 0;
  int64_t servers_replaced = 0;
  int64_t take_overs = 0;         // of coordinators
  bool is_without_copy = false;   // a life has ended because no copy of a shard was left
  bool has_lost_initial = false;  // the last life ended because worker 0 was lost early
  bool have_all_lived = true;     // no lost worker is missing in what the last life goes on from
};

// Simulates the lives of the scenario's job, until one ends well. Checks the history of each, its
// end by BadEnd, and what is restored.
ScenarioVerdict RunScenario(const Scenario& scenario);

// The reason why the job must not end like this; empty: it may. A job may fail only after the
// silence of a server, of a worker before the training, of worker 0 before it has sent the initial
// values, or of all workers. The scenario's faults must be able to silence the member for its
// lease. A job may hang only while it waits for the registration of a dead member without a
// replacement.
std::string BadEnd(const Scenario& scenario, const SimulationResult& result);

}  // namespace capstan

#endif  // TESTS_SIMULATION_RUN_SCENARIO_H_
