#ifndef TESTS_SIMULATION_SCENARIO_H_
#define TESTS_SIMULATION_SCENARIO_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/random.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "tests/simulation/simulated_disk.h"
#include "tests/simulation/simulated_network.h"
#include "tests/simulation/simulated_state_folder.h"
#include "tests/simulation/user_program.h"

namespace capstan {

// A fault of one process of a simulation.
struct Fault {
  enum class Kind {
    kPauseCoordinator,
    kPauseServer,
    kPauseWorker,
    kKillServer,
    kKillWorker,
    kAskWorkerToEnd,  // it leaves between two steps
  };
  Kind kind = Kind::kPauseWorker;
  uint32_t process = 0;  // number within its kind, in order of start
  absl::Duration at;     // after the start
  absl::Duration pause;  // duration of kPause...
  // Time until another worker process starts in its place; 0: there is none.
  absl::Duration replaced_after;
};

// The reply to a worker's registration is lost, and the worker stands still until another one has
// taken its place. That one ends in the middle of the training, so that the place is free again.
// Then the first worker goes on, and registers again.
struct LostRegistration {
  uint32_t process = 0;           // as in a Fault
  absl::Duration replaced_after;  // after the reply
  // From the registration of the other one on; infinite: nobody ends it.
  absl::Duration successor_lives;
  bool is_successor_killed = false;  // else it is asked to end
  absl::Duration returns_after;      // after the registration of the other one
};

// A user's change of the consistency while the job runs.
struct ConsistencySetting {
  absl::Duration at;  // after the start
  v1::ConsistencySpec change;
};

// No message goes from one process to another for a while.
struct LinkCut {
  // Servers by their number, workers behind them.
  uint32_t from = 0;
  uint32_t to = 0;
  absl::Duration at;  // after the start
  absl::Duration lasts;
};

// A server is lost, or others take it for lost, in a job with two copies of each shard.
struct ServerLoss {
  enum class Kind {
    kKill,
    kPause,     // longer than its lease
    kUnheard,   // only the coordinator does not hear it, for as long as a pause
    kAskToEnd,  // it leaves once others have its shards
  };
  Kind kind = Kind::kKill;
  uint32_t server = 0;           // its id
  absl::Duration at;             // after the start; while the job trains
  bool waits_for_copies = true;  // until all copies are whole
  bool is_noticed = false;       // the coordinator sees the broken connection
  absl::Duration pause;
  absl::Duration returns_after;   // until another process comes in its place; 0: none does
  bool has_same_address = false;  // that one has the lost one's
};

// The coordinator of a job that keeps its state is lost, and another one goes on.
struct CoordinatorLoss {
  enum class Kind {
    kKill,
    kPause,  // it stands still, and goes on beside the other one
  };
  Kind kind = Kind::kKill;
  absl::Duration at;  // after the start
  // From `at` on until the training is over, and the model is evaluated.
  bool waits_for_evaluation = false;
  // Until it is in the middle of an operation on its folder.
  bool waits_for_save = false;
  absl::Duration pause;          // of kPause
  absl::Duration returns_after;  // until another one begins
};

// One simulation: a job, the network, the workers' compute times, and the faults.
struct Scenario {
  uint64_t seed = 0;
  v1::JobSpec job;
  std::vector<v1::TableSpec> tables;
  int64_t steps = 0;  // in a job that stays: beyond the last one of any worker
  // In a job that stays: of each round, and how many times workers come to train one.
  int64_t round_steps = 0;
  int64_t rounds = 1;
  bool has_test_values = true;
  bool has_recorded_values = true;  // histories have the test values
  bool is_recorded = true;          // exchanges are written into the history
  bool pushes_ahead = false;        // workers push every other step without a pull
  // Not 0: gradients are DenseGradient times this, and not test values. So values reveal no
  // updates, but ResidualCheck knows the end of the job.
  float gradient_unit = 0;
  bool is_always_bsp = false;  // in every life; a change of the consistency outlives a restore
  // The place of each lost worker is held until another process has taken it and done its step
  // again: the job is as if none had been lost.
  bool replaces_all = false;
  // A worker that has left before the job's end is started again, as launchers do.
  bool restarts_leavers = false;
  SimulatedNetwork::Options network;
  // Time of one step of the worker process `worker`.
  std::function<absl::Duration(uint32_t worker, Random& random)> compute_time;
  std::vector<Fault> faults;
  std::vector<LinkCut> cuts;
  // Of shards that have copies: then a copy is given up, and is made again. After the start.
  std::vector<absl::Duration> copy_losses;
  std::vector<ServerLoss> server_losses;
  std::optional<LostRegistration> lost_registration;
  // The coordinator keeps the job's state.
  bool keeps_state = false;
  std::vector<CoordinatorLoss> coordinator_losses;
  SimulatedStateFolder::Options state_folder;
  // A member that waits for a coordinator that stands still hears of another one after this time at
  // the latest.
  absl::Duration move_time;
  std::vector<ConsistencySetting> settings;
  absl::Duration limit = absl::Seconds(120);  // virtual time; a longer job has hung

  // Checkpoints, if the job has a folder for them.
  std::vector<absl::Duration> checkpoint_requests;  // after the start
  SimulatedDisk::Options disk;
  uint32_t own_arrays = 0;  // of each worker's own state
  // The coordinator has chosen int8 from this step on, in a job with an auto codec.
  int64_t auto_codecs_from = 0;
  absl::Duration auto_codecs_known_after;  // after the start; each worker hears of it later
  // Values reveal no updates, because of momentum, or of a program's initial values and learning
  // rates. But the final ones are known: the job is BSP.
  bool has_known_end = false;
  std::optional<UserProgram> program;  // none: every worker has a gradient in each step
  uint32_t cut_after_ends = 0;  // number of workers that end before the time to the power cut runs
  absl::Duration power_cut = absl::InfiniteDuration();  // then all processes die
  // If this life of the job does not end well, the next one goes on from the newest checkpoint, and
  // so on.
  std::vector<Scenario> next_lives;
};

// Draws everything from the seed: 1 to 16 workers, 1 to 8 servers, tables, shards, network, speeds,
// pauses, deaths, replacements and lost registrations; consistency and staleness, also of single
// tables, and their changes; checkpoints, power cuts, and further lives of the job; codecs, and
// gradients that leave residuals in them; jobs that stay; programs of users.
Scenario DrawScenario(uint64_t seed);

// The same with two copies of each shard. Then links between processes are sometimes cut, in one
// direction, and copies are lost and made again.
Scenario DrawCopiedScenario(uint64_t seed);

// The same, and servers are lost, come back, and are lost again. In one of five, at any time: then
// a job may end for want of a copy.
Scenario DrawFailOverScenario(uint64_t seed);

// Whether the worker has a gradient for the table in this step.
inline bool HasGradient(const Scenario& scenario, WorkerId worker, Step step, TableId table) {
  return !scenario.program.has_value() ||
         scenario.program->HasGradient(worker, step, scenario.tables[table.value()].layer());
}

// The random source of the worker process's compute times.
inline Random ComputeRandom(const Scenario& scenario, uint32_t worker) {
  return Random(scenario.seed, /*stream=*/2'000'000 + worker);
}

// Whether the scenario's workers are scripted programs. A program has no own state, and is not late
// with its initial values.
bool HasScriptedPrograms(const Scenario& scenario);

// Whether the programs run the optimizer of a table. It is SGD with learning rate 1.
bool HasMeanTable(const Scenario& scenario);

// Whether a step is a round of local steps. Only programs have them.
inline bool HasLocalSteps(const Scenario& scenario) {
  return scenario.program.has_value() && scenario.program->local_steps.has_value();
}

// Whether the last table is sparse. Only programs have one.
bool HasSparseTable(const Scenario& scenario);

// Its keys: in each shard, one for each worker, in order of worker.
std::vector<std::vector<uint64_t>> SparseKeysByShard(const v1::JobSpec& job);

// "ssp(2), 5 workers, 3 servers, 2 faults"
std::string Describe(const Scenario& scenario);

}  // namespace capstan

#endif  // TESTS_SIMULATION_SCENARIO_H_
