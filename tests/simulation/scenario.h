#ifndef TESTS_SIMULATION_SCENARIO_H_
#define TESTS_SIMULATION_SCENARIO_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/random.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "tests/simulation/simulated_network.h"

namespace capstan {

// Something that befalls a process of a simulation.
struct Fault {
  enum class Kind {
    kPauseCoordinator,
    kPauseServer,
    kPauseWorker,
    kKillServer,
    kKillWorker,
  };
  Kind kind = Kind::kPauseWorker;
  uint32_t process = 0;  // which of its kind, in order of start
  absl::Duration at;     // after the start
  absl::Duration pause;  // kPause...: how long
  // Another worker process starts, to take its place, so long after; 0: none does.
  absl::Duration replaced_after;
};

// A change of the consistency that somebody asks for while the job runs.
struct ConsistencySetting {
  absl::Duration at;  // after the start
  v1::ConsistencySpec change;
};

// One simulation: a job, the network, how long workers compute, and what goes wrong.
struct Scenario {
  uint64_t seed = 0;
  v1::JobSpec job;
  std::vector<v1::TableSpec> tables;
  int64_t steps = 0;
  bool has_test_values = true;
  bool is_recorded = true;    // exchanges are written into the history
  bool pushes_ahead = false;  // workers push every other step without a pull
  SimulatedNetwork::Options network;
  // Time of one step of the worker process `worker`.
  std::function<absl::Duration(uint32_t worker, Random& random)> compute_time;
  std::vector<Fault> faults;
  std::vector<ConsistencySetting> settings;
  absl::Duration limit = absl::Seconds(120);  // virtual time after which the job has hung
};

// Draws everything from the seed: 1 to 16 workers, 1 to 8 servers, tables, shards, consistency,
// staleness, also of single tables, changes of both, network, speeds, pauses, deaths and
// replacements.
Scenario DrawScenario(uint64_t seed);

// What the worker process draws its compute times from.
inline Random ComputeRandom(const Scenario& scenario, uint32_t worker) {
  return Random(scenario.seed, /*stream=*/2'000'000 + worker);
}

// "ssp(2), 5 workers, 3 servers, 2 faults"
std::string Describe(const Scenario& scenario);

}  // namespace capstan

#endif  // TESTS_SIMULATION_SCENARIO_H_
