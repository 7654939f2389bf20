#ifndef SERVER_CHECKPOINT_READ_CHECKPOINT_H_
#define SERVER_CHECKPOINT_READ_CHECKPOINT_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "proto/checkpoint.pb.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {

// Reads and verifies all shards of the checkpoint at `path`, one after the other, and calls `use`
// with each: only one is in memory. `manifest` is the checkpoint's. Each slice that `use` sees lies
// within its table. DATA_LOSS or INVALID_ARGUMENT, naming the file: it is damaged, or it
// contradicts the manifest. INVALID_ARGUMENT: a slice is missing, or comes twice. Otherwise the
// error of `use`.
absl::Status ReadAllShards(const std::string& path, const v1::CheckpointManifest& manifest,
                           absl::FunctionRef<absl::Status(const ShardSnapshot&)> use);

}  // namespace capstan

#endif  // SERVER_CHECKPOINT_READ_CHECKPOINT_H_
