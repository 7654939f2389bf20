#ifndef TESTS_SIMULATION_RESTORED_UPDATES_H_
#define TESTS_SIMULATION_RESTORED_UPDATES_H_

#include <cstdint>
#include <string>

#include "proto/history.pb.h"
#include "server/slice/shard_snapshot.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_disk.h"

namespace capstan {

// The updates in a slice of a checkpoint, as its test values and its kept pushes tell them. Not as
// its step vector does: that may be wrong. Only of pushes without a gradient nothing else tells.
v1::RestoredSlice UpdatesOf(const SliceSnapshot& slice, const Scenario& life);

// What a checkpoint lacks, of a job whose workers have all lived from the start: every update of a
// worker before its first step must be there. Empty: nothing.
std::string MissingUpdates(const SimulatedDisk::Checkpoint& checkpoint, const Scenario& life);

}  // namespace capstan

#endif  // TESTS_SIMULATION_RESTORED_UPDATES_H_
