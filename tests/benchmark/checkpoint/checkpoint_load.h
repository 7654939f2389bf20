#ifndef TESTS_BENCHMARK_CHECKPOINT_CHECKPOINT_LOAD_H_
#define TESTS_BENCHMARK_CHECKPOINT_CHECKPOINT_LOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/checkpoint.pb.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/shard_storage.h"
#include "server/shard/shard_host.h"
#include "tests/benchmark/common/benchmark_job.h"

namespace capstan {

// Checkpoints of one server with one table under Adam, in this process. Values and optimizer state
// are random. No worker trains meanwhile. For one thread.
class CheckpointLoad {
 public:
  struct Options {
    Clock* clock = nullptr;    // Required; outlives the load
    std::string dir;           // Required: the folder of checkpoints
    uint64_t table_bytes = 0;  // Required: a multiple of 4; a checkpoint has three times as many
  };
  static absl::StatusOr<std::unique_ptr<CheckpointLoad>> Create(const Options& options);

  // Writes a checkpoint and removes the one before. The time is from the order until it is
  // complete: cut, shards, sync, manifest.
  absl::StatusOr<absl::Duration> Write();

  // Restores a server from the last checkpoint. The time is that until its shards exist. INTERNAL:
  // they differ from the ones that were written.
  absl::StatusOr<absl::Duration> Read();

  // The folder of the last checkpoint, and the bytes of its shards.
  const std::string& path() const { return path_; }
  uint64_t bytes() const;

 private:
  explicit CheckpointLoad(const Options& options);
  absl::Status MakeHost();
  // Writes the shards as a server does.
  absl::StatusOr<v1::CheckpointPart> WriteShards(const std::string& name);
  v1::CheckpointManifest ManifestOf(const v1::CheckpointPart& part) const;

  const Options options_;
  const BenchmarkJob job_;
  std::unique_ptr<CheckpointStorage> folder_;
  std::unique_ptr<ShardStorage> shards_;
  std::unique_ptr<ShardHost> host_;
  uint64_t host_hash_ = 0;
  uint64_t number_ = 0;  // of the last checkpoint
  std::string path_;
  v1::CheckpointManifest manifest_;
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_CHECKPOINT_CHECKPOINT_LOAD_H_
