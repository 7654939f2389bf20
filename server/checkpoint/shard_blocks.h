#ifndef SERVER_CHECKPOINT_SHARD_BLOCKS_H_
#define SERVER_CHECKPOINT_SHARD_BLOCKS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {

// All of a shard but its floats, as bytes: one block for the shard, then one for each slice. A
// block is its kind and its format version (uint32 each), the length of its contents (uint64), the
// contents, and the XXH3-64 of all of these. All numbers are little-endian. The format version is
// 2, or for a slice of a dense table 3 or 4; another one is refused here.
//   shard (kind 1): uint32 shard, uint32 count of workers; for each: uint32 worker, uint64
//     incarnation, int64 first_step, uint8 is_entering
//   slice (kind 2): uint32 table, uint32 slice, uint64 version, from version 3 on uint64 steps of
//     the optimizer (else they are the version), int64 min_step, int64 largest_step,
//     uint32 count of arrays of the optimizer; uint32 count of periods; for each: int64 first_step,
//     uint8 mode (1 BSP, 2 SSP, 3 async), int64 staleness; uint32 count of workers; for each:
//     uint32 worker, int64 completed, uint8 is_live; uint32 count of kept pushes; for each: int64
//     step, uint32 worker, uint8 has_base_version, uint64 base_version, uint8
//     has_learning_rate, float64 learning_rate, in version 4 uint8 has_momentum and float64
//     momentum, uint8 is_empty; uint32 count of arrays of an own state, uint32 count of own states;
//     for each: uint32 worker; if there is a copy of what the workers have: uint64 version of its
//     values
//   slice of a sparse table (kind 3): as kind 2, without a copy; then uint32 values of a row,
//     uint32 floats of state in a row, int64 last step of a push or pull
//   states of workers' programs (kind 4), behind the slice that has them, only if there are some:
//     uint32 count; for each: uint32 worker, uint64 length, the bytes
std::string EncodeShardBlocks(const ShardSnapshot& snapshot);

// Decodes bytes of EncodeShardBlocks. Payloads are empty, except states of programs; there are as
// many as the slice had. Rows have no keys yet, and kept pushes of rows neither.
// DATA_LOSS: a block is damaged or incomplete. INVALID_ARGUMENT: a block is of another kind or
// version, or its contents contradict each other.
absl::StatusOr<ShardSnapshot> DecodeShardBlocks(absl::string_view bytes);

}  // namespace capstan

#endif  // SERVER_CHECKPOINT_SHARD_BLOCKS_H_
