#ifndef SERVER_CHECKPOINT_SHARD_FILE_H_
#define SERVER_CHECKPOINT_SHARD_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model_file/model_file.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {

// A shard in a safetensors file. Each slice has the float32 tensors TABLE/SLICE/values,
// TABLE/SLICE/optimizer.0, 1, ..., TABLE/SLICE/copy (what the workers have, if pulls get
// differences), TABLE/SLICE/kept.STEP.WORKER (not of empty pushes), and TABLE/SLICE/own.WORKER,
// which any safetensors library reads. A slice of a sparse table has
//   TABLE/SLICE/keys          int64 [rows], the bits of the uint64 keys, which ascend
//   TABLE/SLICE/values        float32 [rows, dim]
//   TABLE/SLICE/state         float32 [rows, state of the optimizer], if it has any
//   TABLE/SLICE/last_touch    uint32 [rows], a step, if rows go when they are idle
//   TABLE/SLICE/sketch        uint8, if keys are admitted by a count of pushes
//   TABLE/SLICE/kept.STEP.WORKER float32 [rows, dim], and kept.STEP.WORKER.keys
// The uint8 tensor "shard" has the rest (shard_blocks.h).

// Writes `snapshot` into an empty file. `table_names` are the job's, in order of table id. Returns
// the XXH3-64 of the whole file.
absl::StatusOr<uint64_t> WriteShardFile(const ShardSnapshot& snapshot,
                                        absl::Span<const std::string> table_names,
                                        const OpenFile& file);

// A shard that was read, and the XXH3-64 of its whole file.
struct HashedShard {
  ShardSnapshot snapshot;
  uint64_t xxh3 = 0;
};

// Reads a file of WriteShardFile, once and in order. Nobody else has the memory of the arrays.
// DATA_LOSS or INVALID_ARGUMENT, with the name of the file, if it is damaged, or is no such file of
// a job with these tables. RESOURCE_EXHAUSTED.
absl::StatusOr<HashedShard> ReadShardFile(const OpenFile& file,
                                          absl::Span<const std::string> table_names);

}  // namespace capstan

#endif  // SERVER_CHECKPOINT_SHARD_FILE_H_
