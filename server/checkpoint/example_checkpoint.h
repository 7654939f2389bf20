#ifndef SERVER_CHECKPOINT_EXAMPLE_CHECKPOINT_H_
#define SERVER_CHECKPOINT_EXAMPLE_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {

// A checkpoint for tests: logistic regression of the built-in digits, in 4 slices and 3 shards.

inline constexpr uint32_t kExampleShards = 3;

v1::JobSpec ExampleJob();

// A new folder for a test's checkpoints.
std::string NewFolder();

// The manifest at this step, without files.
v1::CheckpointManifest ExampleManifest(int64_t step);

// All parameters at this step, in table and element order.
std::vector<float> ExampleValues(int64_t step);

// A shard with its part of ExampleValues.
ShardSnapshot ExampleShard(uint32_t shard, int64_t step);

// Adds a sparse table, "items", with rows of 2 values and Adagrad. `shards` are all shards: each
// gets its part of the rows of ExampleKeys. Row k of them has the values k and k + 0.5, and as
// state 2 k and 2 k + 0.5. Shard 0 has also a push that is kept, of worker 1.
void AddExampleRows(v1::CheckpointManifest& manifest, std::vector<ShardSnapshot>& shards);

// In order of shard, and then ascending. Some are above 2^63.
std::vector<uint64_t> ExampleKeys();

// Writes these shards as a complete checkpoint in the folder `dir`, and returns its path.
std::string WriteCheckpoint(const std::string& dir, v1::CheckpointManifest manifest,
                            const std::vector<ShardSnapshot>& shards);

// The same with ExampleManifest and ExampleShard.
std::string WriteExampleCheckpoint(const std::string& dir, int64_t step);

// Changes the last byte of a file.
void FlipLastByte(const std::string& path);

}  // namespace capstan

#endif  // SERVER_CHECKPOINT_EXAMPLE_CHECKPOINT_H_
