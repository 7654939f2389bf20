#ifndef TESTS_SIMULATION_SIMULATED_DISK_H_
#define TESTS_SIMULATION_SIMULATED_DISK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/random.h"
#include "proto/checkpoint.pb.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/shard_storage.h"
#include "tests/simulation/simulated_process.h"

namespace capstan {

// The checkpoints of a job over all of its lives. Writing takes time and may fail. A process that
// dies leaves what it has written. Guarded by the baton of the simulation.
class SimulatedDisk {
 public:
  struct Options {
    absl::Duration max_write_time;  // of a shard; uniform from 0
    double failures = 0;            // probability of each write
  };
  struct Checkpoint {
    struct File {
      ShardSnapshot snapshot;
      bool is_finished = false;  // it has its own name
    };
    std::map<uint32_t, File> files;                  // by shard
    std::optional<v1::CheckpointManifest> manifest;  // none: not complete
  };

  SimulatedDisk(const Options& options, uint64_t seed) : options_(options), random_(seed, 4) {}

  // The disk as processes of the current life see it. The disk outlives the results.
  std::unique_ptr<CheckpointStorage> OpenForCoordinator();
  std::unique_ptr<ShardStorage> OpenForServer(SimulatedProcess* server);
  // Nobody of the current life changes the disk from now on.
  void EndLife() { ++life_; }

  // The name of the newest complete checkpoint; empty: there is none.
  std::string Newest() const;
  const Checkpoint& Get(const std::string& name) const { return checkpoints_.at(name); }

 private:
  class CoordinatorStorage;
  class ServerStorage;

  // Not OK after the end of that life.
  absl::Status CheckLife(uint64_t life) const;

  const Options options_;
  Random random_;
  uint64_t life_ = 0;
  uint64_t created_ = 0;
  std::map<std::string, Checkpoint> checkpoints_;  // by name, in order of creation
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SIMULATED_DISK_H_
