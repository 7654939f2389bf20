#ifndef TESTS_SIMULATION_RESTORED_UPDATES_H_
#define TESTS_SIMULATION_RESTORED_UPDATES_H_

#include <cstdint>
#include <string>

#include "proto/history.pb.h"
#include "server/shard/shard_snapshot.h"
#include "tests/simulation/simulated_disk.h"

namespace capstan {

// The updates in a slice of a checkpoint, as its test values and its kept pushes tell them. Not as
// its step vector does: that may be wrong.
v1::RestoredSlice UpdatesOf(const SliceSnapshot& slice, uint32_t num_workers, int64_t steps);

// What a checkpoint lacks, of a job whose workers have all lived from the start: every update of a
// worker before its first step must be there. Empty: nothing.
std::string MissingUpdates(const SimulatedDisk::Checkpoint& checkpoint, uint32_t num_workers,
                           int64_t steps);

}  // namespace capstan

#endif  // TESTS_SIMULATION_RESTORED_UPDATES_H_
